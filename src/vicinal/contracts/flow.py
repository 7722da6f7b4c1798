"""What flow is made of: who of the tenants has the next turn, and which of a tenant's requests takes it."""

from collections.abc import Collection, Sequence
from typing import Protocol

from msgspec import Struct

from vicinal.domain.ids import TenantId
from vicinal.domain.lane import Lane
from vicinal.domain.request import Request


class Waiting(Struct, frozen=True, eq=False):
    """A request that waits for its turn. Times are on the driver's clock.

    `prefill_s` is its predicted compute where most of its prompt is, `due_s` when its first token is due by its
    objective, `until_s` when it has waited for too long. `pool` is its tenant where that has places of its own, and
    empty otherwise: what keeps one waiting keeps all of its pool and lane waiting.
    """

    request: Request
    lane: Lane
    prefill_s: float
    since_s: float
    due_s: float
    until_s: float
    pool: str = ""


class Ordering(Protocol):
    """Which of one tenant's requests goes first: the one with the smallest key. The key never changes while it waits,
    so what gets better by waiting is written as what others get worse by coming later."""

    def key(self, waiting: Waiting) -> float: ...


class Fairness(Protocol):
    """Shares the turns of one band among tenants.

    `joined` is told of a tenant of which nothing waited before, with those of which something does; `left` when nothing
    of it waits any more. `pick` takes one of the tenants' first requests, at least one. `charge` is told of each
    request that is sent off, `correct` by how many output tokens the prediction was wrong, once that is known.
    `service` is what a tenant has had, in the rule's own tokens over its weight; None where the rule does not count.
    """

    def joined(self, tenant: TenantId, others: Collection[TenantId]) -> None: ...

    def left(self, tenant: TenantId) -> None: ...

    def pick(self, heads: Sequence[Waiting]) -> Waiting: ...

    def charge(self, request: Request, cached_tokens: int) -> None: ...

    def correct(self, request: Request, output_tokens: int) -> None: ...

    def service(self, tenant: TenantId) -> float | None: ...
