"""One tenant's buckets and counts."""

from vicinal.domain.ids import TenantId
from vicinal.flow.quotas.bucket import Bucket
from vicinal.flow.quotas.concurrency import Concurrency
from vicinal.flow.quotas.exceeded import Exceeded
from vicinal.flow.quotas.rules import RATES, Quota, Rules
from vicinal.flow.quotas.usage import Usage

GAIN = 0.1
"""Weight of the newest request in the means that block-seconds are predicted with."""

HELD_S = 1.0
"""Seconds for which a block of HBM is taken to be held before any request of the tenant has ended."""


class Account:
    """Has a bucket only for what is limited. `held_s` is how long a request holds each of its blocks, in HBM, host
    memory and SSD: a mean over those that ended."""

    __slots__ = ("_buckets", "_by_name", "burst_s", "concurrency", "held_s", "tenant")

    def __init__(self, tenant: TenantId, rules: Rules, now: float) -> None:
        self.tenant = tenant
        self.burst_s = rules.burst_s
        self.concurrency = Concurrency(rules.concurrency_max)
        self.held_s = (HELD_S, 0.0, 0.0)
        limits = ((quota, rules.per_s(quota)) for quota in RATES)
        self._buckets = tuple(
            (quota, quota.name.lower(), Bucket(per_s, per_s * rules.burst_s, now))
            for quota, per_s in limits
            if per_s is not None
        )
        self._by_name = {name: bucket for _, name, bucket in self._buckets}

    def exceeded(self, usage: Usage, now: float) -> Exceeded | None:
        """Which quota says no to a request that is going to use this, the one that does so for longest. A quota of
        something that the request does not use lets it go."""
        found, longest_s = None, 0.0
        for quota, name, bucket in self._buckets:
            balance = bucket.balance(now)
            if balance > 0.0 or getattr(usage, name) <= 0.0:
                continue
            retry_s = bucket.when(now)
            if found is None or retry_s > longest_s:
                longest_s = retry_s
                used = bucket.capacity - balance
                found = Exceeded(self.tenant, quota, used, bucket.capacity, retry_s, self.burst_s)
        if found is None and self.concurrency.reached:
            found = Exceeded(self.tenant, Quota.CONCURRENCY, self.concurrency.count, self.concurrency.most or 0)
        return found

    def charge(self, usage: Usage, now: float) -> None:
        for _, name, bucket in self._buckets:
            bucket.charge(getattr(usage, name), now)

    def charge_more(self, name: str, amount: float, now: float) -> None:
        """Of one thing, by its name in `Usage`; a negative amount gives back."""
        if (bucket := self._by_name.get(name)) is not None:
            bucket.charge(amount, now)

    def learn(self, blocks: int, usage: Usage) -> None:
        """A request of so many blocks held them so long."""
        seen = (usage.hbm_block_s / blocks, usage.host_block_s / blocks, usage.ssd_block_s / blocks)
        hbm_s, host_s, ssd_s = (mean + GAIN * (new - mean) for mean, new in zip(self.held_s, seen, strict=True))
        self.held_s = (hbm_s, host_s, ssd_s)

    def left(self, quota: Quota, now: float) -> float | None:
        """What its bucket has, below 0 after more was taken; None where there is no limit."""
        return next((bucket.balance(now) for limited, _, bucket in self._buckets if limited is quota), None)

    def idle(self, now: float) -> bool:
        """Nothing is under way, and nothing is to be regained."""
        return not self.concurrency.count and all(bucket.full(now) for _, _, bucket in self._buckets)
