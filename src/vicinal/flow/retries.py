"""A budget for our own retries: a small share of what a tenant asks for, so that failures never multiply its load.

When an engine fails, planning its requests again elsewhere helps. When many fail, every retry is more load on those
that are left, and the storm feeds itself. So each request of a tenant adds `share` of a retry to its balance, a retry
costs one, and what is not used is forgotten with time. A tenant that has sent nothing lately still has `least`: what a
small fleet has under way on the one engine that dies can be tried again.

    balance(t) = least + (balance(t0) - least) · exp(-(t - t0) / window)

In any time of T seconds a tenant has at most `most + share · its requests + least · T / window` retries.
"""

from dataclasses import dataclass
from math import exp

from vicinal.domain.ids import TenantId

TENANTS_MAX = 4096
"""Of whom a balance is kept. Whoever was not heard of for longest is forgotten first, and begins anew."""


@dataclass(frozen=True, slots=True)
class RetryRule:
    """Counted in retries. `most` is the largest balance, `window_s` how long one that is not used lasts."""

    share: float = 0.1
    least: float = 32.0
    most: float = 100.0
    window_s: float = 60.0


@dataclass(slots=True)
class _Balance:
    retries: float
    at_s: float


class RetryBudget:
    """A balance per tenant."""

    def __init__(self, rule: RetryRule) -> None:
        self.rule = rule
        self._balances: dict[TenantId, _Balance] = {}

    def __len__(self) -> int:
        return len(self._balances)

    def asked(self, tenant: TenantId, now: float) -> None:
        """A request of the tenant arrived."""
        balance = self._now(tenant, now)
        balance.retries = min(balance.retries + self.rule.share, self.rule.most)

    def take(self, tenant: TenantId, now: float) -> bool:
        """Whether the tenant may have a retry; then it is paid for."""
        balance = self._now(tenant, now)
        if balance.retries < 1.0:
            return False
        balance.retries -= 1.0
        return True

    def left(self, tenant: TenantId, now: float) -> float:
        """Retries that the tenant could have now."""
        balance = self._balances.get(tenant)
        return self.rule.least if balance is None else self._relaxed(balance, now)

    def _now(self, tenant: TenantId, now: float) -> _Balance:
        balance = self._balances.pop(tenant, None)
        if balance is None:
            balance = _Balance(self.rule.least, now)
            if len(self._balances) >= TENANTS_MAX:
                del self._balances[next(iter(self._balances))]
        else:
            balance.retries, balance.at_s = self._relaxed(balance, now), now
        self._balances[tenant] = balance  # the last in order is the one heard of last
        return balance

    def _relaxed(self, balance: _Balance, now: float) -> float:
        least = self.rule.least
        return least + (balance.retries - least) * exp((balance.at_s - now) / self.rule.window_s)
