"""What the scheduler remembers of a request while it lives."""

from dataclasses import dataclass, field

from vicinal.domain.decision import Decision
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.plan import Leg, Plan
from vicinal.domain.request import Request
from vicinal.scheduler.states import Move, State, after


@dataclass(slots=True)
class Tracked:
    """`plan`, `decision` and `leg` are of the current attempt; times are on the driver's clock, None until they come.

    `expected` lists the slots on which the index counts this request's blocks as filling.
    """

    request: Request
    arrived_s: float
    state: State = State.RECEIVED
    attempt: int = 0
    plan: Plan | None = None
    decode_bound: bool = False
    decision: Decision | None = None
    leg: Leg | None = None
    tried: set[EndpointId] = field(default_factory=set)
    expected: list[int] = field(default_factory=list)
    held_since_s: float | None = None
    held_s: float = 0.0
    dispatched_s: float | None = None
    prefill_done_s: float | None = None
    decode_dispatched_s: float | None = None
    transfer_promise_s: float | None = None
    expected_start_s: float = 0.0
    expected_step_s: float = 0.0
    first_token_s: float | None = None
    cached_tokens: int | None = None
    first_decision: Decision | None = None

    @property
    def id(self) -> RequestId:
        return self.request.id

    def move(self, move: Move) -> None:
        self.state = after(self.state, move)
