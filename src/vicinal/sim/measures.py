"""What a run is measured by, gathered request by request in flat arrays: eight bytes a figure."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vicinal.domain.tier import Tier
from vicinal.enginemodel.engine import Engine
from vicinal.sim.completed import Completed, Parties
from vicinal.sim.job import Job
from vicinal.sim.objectives import Objectives


def _floats() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class Measures:
    """Per completed request, in order of completion: when it arrived, TTFT, TPOT (not of one-token answers) and E2E;
    `good` of them met both objectives. `completed` has the same and more, side by side. Sums of tokens are over the
    same; of the cached ones, `loaded_tokens` lay below HBM. Times are virtual seconds.

    Per refused request, when it was and by whom (`Completed.parties`); `unreasoned` of them were not told why. Of
    errands, those that `came_back` after a refusal, once for each time, and those that ended without an answer.
    """

    objectives: Objectives
    arrived_s: "array[float]" = field(default_factory=_floats)
    ttft_s: "array[float]" = field(default_factory=_floats)
    tpot_s: "array[float]" = field(default_factory=_floats)
    e2e_s: "array[float]" = field(default_factory=_floats)
    good: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    loaded_tokens: Counter[Tier] = field(default_factory=Counter)
    output_tokens: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    warnings: Counter[str] = field(default_factory=Counter)
    decision_us: "array[float]" = field(default_factory=_floats)
    first_s: float | None = None
    last_s: float = 0.0
    unfinished: int = 0
    preemptions: int = 0
    bytes_by_level: Mapping[str, float] = field(default_factory=dict)
    completed: Completed = field(default_factory=Completed)
    arrivals_s: "array[float]" = field(default_factory=_floats)
    refused_s: "array[float]" = field(default_factory=_floats)
    refused_party: "array[int]" = field(default_factory=lambda: array("i"))
    unreasoned: int = 0
    came_back: int = 0
    given_up: int = 0

    @property
    def parties(self) -> Parties:
        return self.completed.parties

    def arrived(self, now: float) -> None:
        self.arrivals_s.append(now)

    def decided(self, us: float) -> None:
        self.requests += 1
        self.decision_us.append(us)

    def answered(self, job: Job) -> None:
        """A request got its whole answer."""
        assert job.first_s is not None
        assert job.done_s is not None
        arrived_s, output_tokens = job.at_s, job.arrival.output_tokens
        ttft_s = job.first_s - arrived_s
        tpot_s = (job.done_s - job.first_s) / (output_tokens - 1) if output_tokens > 1 else None
        self.arrived_s.append(arrived_s)
        self.ttft_s.append(ttft_s)
        if tpot_s is not None:
            self.tpot_s.append(tpot_s)
        self.e2e_s.append(job.done_s - arrived_s)
        alone_s = self.objectives.unloaded_ttft_s(job.request.prompt_tokens)
        good = self.objectives.met(job.request.service, job.request.prompt_tokens, ttft_s, tpot_s)
        self.good += good
        self._complete(job, ttft_s / alone_s, good)
        self.prompt_tokens += job.request.prompt_tokens
        self.cached_tokens += job.cached_tokens
        self.loaded_tokens.update(job.loaded_tokens)
        self.output_tokens += output_tokens
        self.endings["done"] += 1
        self.first_s = arrived_s if self.first_s is None else min(self.first_s, arrived_s)
        self.last_s = max(self.last_s, job.done_s)

    def _complete(self, job: Job, slowdown: float, good: bool) -> None:
        row, request = self.completed, job.request
        assert job.first_s is not None
        assert job.done_s is not None
        row.arrived_s.append(job.at_s)
        row.asked_s.append(job.asked_s)
        row.sent_s.append(job.at_s if job.sent_s is None else job.sent_s)
        row.first_s.append(job.first_s)
        row.done_s.append(job.done_s)
        row.slowdown.append(slowdown)
        row.prompt_tokens.append(request.prompt_tokens)
        row.cached_tokens.append(job.cached_tokens)
        row.output_tokens.append(job.arrival.output_tokens)
        row.good.append(good)
        row.party.append(self.parties.number(request.tenant, request.service.name))

    def refused(self, job: Job, now: float, *, comes_back: bool) -> None:
        """A request ended without an answer; its client `comes_back` with another."""
        assert job.outcome is not None
        self.endings[job.outcome.ending.value] += 1
        self.refused_s.append(now)
        self.refused_party.append(self.parties.number(job.request.tenant, job.request.service.name))
        self.unreasoned += not job.outcome.reason
        self.came_back += comes_back
        self.given_up += not comes_back

    def warned(self, kind: str) -> None:
        self.warnings[kind] += 1

    def close(self, left: Iterable[Job], bytes_by_level: Mapping[str, float], engines: Sequence[Engine]) -> None:
        """The run is over: who never got an answer, what moved, and what engines counted."""
        self.unfinished = sum(1 for _ in left)
        self.bytes_by_level = dict(bytes_by_level)
        self.preemptions = sum(engine.counters.preemptions for engine in engines)
