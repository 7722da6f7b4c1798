"""Quotas of all tenants: asked at a request's arrival, told of its legs, its blocks and its end.

A request is charged at arrival with what it is expected to use, and what it really used corrects that, so what a tenant
sends at once counts at once. Its account is charged whatever the interleaving, and each request ends once.
"""

from collections.abc import Collection, Iterator
from itertools import islice

from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.plan import Leg, Plan
from vicinal.domain.request import Request
from vicinal.flow.quotas.account import Account
from vicinal.flow.quotas.exceeded import Exceeded
from vicinal.flow.quotas.live import Live
from vicinal.flow.quotas.rules import Rules
from vicinal.flow.tenants import Tenants

LOOKED_AT = 2
"""Accounts that are looked at, the longest unused first, whenever one is opened: more than come, so idle ones go."""


class Quotas:
    """Costs nothing for a tenant of which nothing is said. `kv_bytes_per_token` is what a copied token weighs; whoever
    knows the fleet sets it.

    An account is forgotten when nothing of its tenant is under way and its buckets are full: the rest are as many as
    were in use within the seconds that buckets take to fill.
    """

    def __init__(self, tenants: Tenants, kv_bytes_per_token: float = 0.0) -> None:
        self.tenants = tenants
        self.kv_bytes_per_token = kv_bytes_per_token
        self._accounts: dict[tuple[TenantId, ModelId | None], Account] = {}
        self._live: dict[RequestId, Live] = {}

    def __len__(self) -> int:
        """Accounts that are remembered."""
        return len(self._accounts)

    def arrived(self, request: Request, now: float) -> Exceeded | None:
        """Charge a request; or say which quota it exceeds, and charge the gateway's CPU only, which is spent."""
        tenant = self.tenants.of(request.tenant, request.model)
        if tenant is None or tenant.rules is None:
            return None
        account = self._account((request.tenant, tenant.model), tenant.rules, now)
        live = Live(request, account, self.kv_bytes_per_token, now)
        exceeded = account.exceeded(live.charged, now)
        if exceeded is not None:
            account.charge_more("gateway_cpu_s", request.gateway_cpu_s, now)
            return exceeded
        account.charge(live.charged, now)
        account.concurrency.enter()
        self._live[request.id] = live
        return None

    def dispatched(self, request_id: RequestId, leg: Leg, plan: Plan, now: float) -> None:
        if (live := self._live.get(request_id)) is not None:
            live.dispatched(leg, plan, now)

    def held(self, request_id: RequestId, hbm_blocks: int, now: float) -> None:
        """The request holds so many blocks of HBM from now on, on all endpoints together."""
        if (live := self._live.get(request_id)) is not None:
            live.hold(hbm_blocks, now)

    def loaded(self, request_id: RequestId, now: float) -> None:
        """Its prompt is in HBM where it is computed."""
        if (live := self._live.get(request_id)) is not None:
            live.loaded(now)

    def ended(self, request_id: RequestId, output_tokens: int | None, now: float) -> None:
        """Correct what was predicted. Nothing for a request that is not charged: each ends once."""
        live = self._live.pop(request_id, None)
        if live is not None:
            live.end(output_tokens, now)
            live.account.concurrency.leave()

    def counts(self, request_id: RequestId) -> bool:
        """The request is one of a tenant with quotas, so it is worth telling of it."""
        return request_id in self._live

    def charged(self) -> Collection[RequestId]:
        """The requests that are charged and have not ended."""
        return self._live.keys()

    def account(self, tenant: TenantId, model: ModelId) -> Account | None:
        """None for a tenant without quotas, and for one that used none of them lately."""
        found = self.tenants.of(tenant, model)
        return None if found is None else self._accounts.get((tenant, found.model))

    def latest(self) -> Iterator[tuple[tuple[TenantId, ModelId | None], Account]]:
        """Accounts that are remembered, those first that a request came for last; the model is None for all of them."""
        return reversed(self._accounts.items())

    def _account(self, key: tuple[TenantId, ModelId | None], rules: Rules, now: float) -> Account:
        """The account in use goes behind the others, so that those at the front are the longest unused."""
        account = self._accounts.pop(key, None)
        if account is None:
            self._forget_idle(now)
            account = Account(key[0], rules, now)
        self._accounts[key] = account
        return account

    def _forget_idle(self, now: float) -> None:
        for key in list(islice(self._accounts, LOOKED_AT)):
            account = self._accounts.pop(key)
            if not account.idle(now):
                self._accounts[key] = account
