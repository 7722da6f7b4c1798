"""Quotas without a thought for speed or memory: everything that was ever charged, added up anew at each question."""

from collections import defaultdict

from vicinal.domain.request import Request
from vicinal.flow.quotas.rules import RATES, Quota, Rules

Charge = tuple[float, dict[Quota, float]]


def balance(charges: list[tuple[float, float]], per_s: float, capacity: float, now: float) -> float:
    """What a bucket has that was full before the first charge."""
    left, at_s = capacity, 0.0
    for when_s, amount in charges:
        left = min(capacity, left + per_s * (when_s - at_s)) - amount
        left = min(left, capacity)
        at_s = when_s
    return min(capacity, left + per_s * (now - at_s))


class Naive:
    """`held_s` of HBM is predicted as the account does it; that figure is an input here, its use is what is tested."""

    def __init__(self, rules: dict[str, Rules], kv_bytes_per_token: float) -> None:
        self.rules = rules
        self.bytes_per_token = kv_bytes_per_token
        self.charges: dict[str, list[Charge]] = defaultdict(list)
        self.live: dict[str, tuple[Request, dict[Quota, float]]] = {}

    def left(self, tenant: str, quota: Quota, now: float) -> float | None:
        rules = self.rules[tenant]
        per_s = rules.per_s(quota)
        if per_s is None:
            return None
        charges = [(at_s, amounts.get(quota, 0.0)) for at_s, amounts in self.charges[tenant]]
        return balance(charges, per_s, per_s * rules.burst_s, now)

    def against(self, request: Request, uses: dict[Quota, float], now: float) -> set[Quota]:
        """The quotas that say no; to what uses none of it they say nothing."""
        tenant = str(request.tenant)
        found = {
            quota
            for quota in RATES
            if uses.get(quota, 0.0) > 0 and (left := self.left(tenant, quota, now)) is not None and left <= 0
        }
        most = self.rules[tenant].concurrency_max
        under_way = sum(other.tenant == request.tenant for other, _ in self.live.values())
        if most is not None and under_way >= most:
            found.add(Quota.CONCURRENCY)
        return found

    def enter(self, request: Request, uses: dict[Quota, float], now: float) -> None:
        self.charges[str(request.tenant)].append((now, uses))
        self.live[str(request.id)] = (request, uses)

    def becomes(self, name: str, uses: dict[Quota, float], now: float) -> None:
        """What the request uses is this, not what was charged so far."""
        request, before = self.live[name]
        keys = set(uses) | set(before)
        more = {quota: uses.get(quota, 0.0) - before.get(quota, 0.0) for quota in keys}
        self.charges[str(request.tenant)].append((now, more))
        self.live[name] = (request, uses)
