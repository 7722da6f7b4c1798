"""Tenants whose quota of the gateway's own time is used up: their requests are refused before they are read.

The core charges that quota, and learns of a request when its body has been parsed, tokenised and hashed: what the quota
is about is spent then. So a relay notes each refusal for that reason, and refuses by itself until it is over.
"""

import time
from collections.abc import Callable
from dataclasses import replace

from vicinal.domain.ids import TenantId
from vicinal.domain.outcome import Outcome
from vicinal.flow.quotas.rules import Quota

TENANTS_MAX = 10_000
"""Of more than these at once those that were closed first are forgotten: the core refuses them again."""


class ClosedTenants:
    """`clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[TenantId, tuple[float, Outcome]] = {}

    def __len__(self) -> int:
        return len(self._until)

    def heard(self, tenant: TenantId, outcome: Outcome) -> None:
        """The core answered a request of `tenant`."""
        if outcome.detail != Quota.GATEWAY_CPU_S or outcome.retry_after_s is None:
            return
        self._until.pop(tenant, None)
        self._until[tenant] = (self._clock() + outcome.retry_after_s, outcome)
        if len(self._until) > TENANTS_MAX:
            del self._until[next(iter(self._until))]

    def refusal(self, tenant: TenantId) -> Outcome | None:
        """What to answer to a request of `tenant` now; None when it may be read."""
        if tenant not in self._until:
            return None
        until_s, outcome = self._until[tenant]
        left_s = until_s - self._clock()
        if left_s <= 0:
            del self._until[tenant]
            return None
        return replace(outcome, retry_after_s=left_s)
