"""What the scheduler remembers of a request while it lives."""

from dataclasses import dataclass, field

from vicinal.domain.decision import Decision
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.lane import Lane
from vicinal.domain.passed_by import PassedBy
from vicinal.domain.plan import Leg, Plan
from vicinal.domain.request import Request
from vicinal.domain.reuse import Reuse
from vicinal.scheduler.states import Move, State, after


@dataclass(slots=True)
class Promise:
    """What a plan counts on where it prefills: `cached_tokens`, of which `ready_blocks` blocks are there, the last
    `loaded_tokens` in a tier below HBM, and the rest is being made by others. `losses_*` are marks
    (kvindex/losses.py): from the decision until the engine looked."""

    slot: int
    ready_blocks: int
    cached_tokens: int
    loaded_tokens: int
    losses_from: int
    losses_to: int | None = None


@dataclass(frozen=True, slots=True)
class Leased:
    """A chain whose copies in a slot a copy reads: they are not to be given up before it is made."""

    slot: int
    hashes: bytes


@dataclass(slots=True)
class Tracked:
    """What is below `attempt` is of the current attempt; times are on the driver's clock, None until they come.

    `leg` is None while nothing is under way. `first_decision` is the plan that began the attempt, `decision` the last
    one made in it. `expected` lists the slots on which the index counts this request's blocks as filling.
    `lane` is None until it matters; `aged` says that it took a turn of a higher band. `held_for` is what it waited for
    when it was held last, `passed_by` who had turns meanwhile, `patience_s` what early rejection let it in for.
    `concurrent`: both legs left together; `leg` is then the decoding one, and `prefill_done_s` tells of the other.
    `pulling` is the plan whose decode endpoint has yet to pull what the plan says it lacks.
    """

    request: Request
    arrived_s: float
    state: State = State.RECEIVED
    tried: set[EndpointId] = field(default_factory=set)
    held_since_s: float | None = None
    held_s: float = 0.0
    lane: Lane | None = None
    aged: bool = False
    held_for: str = ""
    passed_by: PassedBy | None = None
    patience_s: float | None = None
    first_token_s: float | None = None
    attempt: int = 0
    plan: Plan | None = None
    decode_bound: bool = False
    concurrent: bool = False
    decision: Decision | None = None
    leg: Leg | None = None
    first_decision: Decision | None = None
    expected: list[int] = field(default_factory=list)
    leased: Leased | None = None
    dispatched_s: float | None = None
    prefill_done_s: float | None = None
    transfer_promise_s: float | None = None
    expected_start_s: float = 0.0
    expected_step_s: float = 0.0
    cached_tokens: int | None = None
    promise: Promise | None = None
    reuse: Reuse | None = None
    pulling: Plan | None = None

    @property
    def id(self) -> RequestId:
        return self.request.id

    def move(self, move: Move) -> None:
        self.state = after(self.state, move)

    def held_until(self, now: float) -> float:
        """Seconds that it has been held in all."""
        return self.held_s + (0.0 if self.held_since_s is None else now - self.held_since_s)

    @property
    def prefilling(self) -> bool:
        """The prefill leg of a concurrent hand-off has not answered."""
        return self.concurrent and self.prefill_done_s is None

    def begin(self, decision: Decision, decode_bound: bool, concurrent: bool, now: float) -> None:
        """A new attempt starts with this plan; nothing that the one before saw is true of it."""
        self.attempt += 1
        self.decision = self.first_decision = decision
        self.plan = decision.chosen.plan
        self.leg = Leg.WHOLE if self.plan.local else Leg.DECODE if concurrent else Leg.PREFILL
        self.decode_bound = decode_bound
        self.concurrent = concurrent
        self.dispatched_s = now
        self.prefill_done_s = self.transfer_promise_s = None
        self.cached_tokens = self.promise = self.reuse = None
