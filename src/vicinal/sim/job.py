"""A request in a simulated run, and its legs on the engines."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from vicinal.domain.ids import EndpointId
from vicinal.domain.outcome import Outcome
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.domain.tier import Tier
from vicinal.workload.arrival import Arrival


@dataclass(slots=True)
class Job:
    """`names` of all full blocks of prompt and answer. Stamps are virtual seconds; None until they happen.

    It is the `tries`-th request of an errand that began at `asked_s`; its first leg left the scheduler at `sent_s`.
    `prefilled` is where the attempt under way has its prompt's KV, which took `compute_s`. Of the cached tokens,
    `loaded_tokens` lay below HBM, by tier. `legs` are its works that are not over.
    """

    request: Request
    arrival: Arrival
    names: list[int]
    at_s: float
    asked_s: float
    tries: int = 1
    sent_s: float | None = None
    attempt: int = 0
    prefilled: EndpointId | None = None
    compute_s: float = 0.0
    cached_tokens: int = 0
    loaded_tokens: Mapping[Tier, int] = field(default_factory=dict)
    first_s: float | None = None
    done_s: float | None = None
    outcome: Outcome | None = None
    legs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunningLeg:
    """One work on one engine."""

    job: Job
    attempt: int
    kind: Leg
    endpoint: EndpointId
