"""What a run is measured by, gathered request by request in flat arrays: eight bytes a figure."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vicinal.domain.tier import Tier
from vicinal.enginemodel.engine import Engine
from vicinal.sim.job import Job
from vicinal.sim.objectives import Objectives


def _floats() -> "array[float]":
    return array("d")


@dataclass(slots=True)
class Measures:
    """Per completed request, in order of completion: when it arrived, TTFT, TPOT (not of one-token answers), E2E, and
    whether both objectives were met; `slowdowns` are TTFTs over that of the prompt alone, by tenant. Sums of tokens are
    over the same; of the cached ones, `loaded_tokens` lay below HBM. Times are virtual seconds."""

    objectives: Objectives
    arrived_s: "array[float]" = field(default_factory=_floats)
    ttft_s: "array[float]" = field(default_factory=_floats)
    tpot_s: "array[float]" = field(default_factory=_floats)
    e2e_s: "array[float]" = field(default_factory=_floats)
    slowdowns: dict[str, "array[float]"] = field(default_factory=dict)
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
        self.slowdowns.setdefault(job.request.tenant, _floats()).append(ttft_s / alone_s)
        self.good += self.objectives.met(job.request.service, job.request.prompt_tokens, ttft_s, tpot_s)
        self.prompt_tokens += job.request.prompt_tokens
        self.cached_tokens += job.cached_tokens
        self.loaded_tokens.update(job.loaded_tokens)
        self.output_tokens += output_tokens
        self.endings["done"] += 1
        self.first_s = arrived_s if self.first_s is None else min(self.first_s, arrived_s)
        self.last_s = max(self.last_s, job.done_s)

    def refused(self, job: Job) -> None:
        assert job.outcome is not None
        self.endings[job.outcome.ending.value] += 1

    def warned(self, kind: str) -> None:
        self.warnings[kind] += 1

    def close(self, left: Iterable[Job], bytes_by_level: Mapping[str, float], engines: Sequence[Engine]) -> None:
        """The run is over: who never got an answer, what moved, and what engines counted."""
        self.unfinished = sum(1 for _ in left)
        self.bytes_by_level = dict(bytes_by_level)
        self.preemptions = sum(engine.counters.preemptions for engine in engines)
