"""A run in windows of virtual time: what came, what was served well, who waited, and how loaded the engines were."""

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np
from numpy.typing import NDArray

from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.states import State
from vicinal.sim.agenda import Agenda, Rank
from vicinal.sim.completed import Completed, Figures
from vicinal.sim.measures import Measures
from vicinal.sim.server import Server

SAMPLES_PER_WINDOW = 4
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1.0, 2.0
"""Service of a token, as the virtual token counter weighs it (Sheng et al., OSDI'24)."""


class Timeline(msgspec.Struct, frozen=True):
    """Lists have one entry per window of `window_s`, from time 0 until the last request was over.

    `arrived` counts requests, those that came back among them; `good` are those of them that met both objectives in the
    end; `finished_good` counts such where they ended, `refused` where they were refused. `ttft_p99_s` is of those that
    arrived in the window, None where none was served. `held` is how many the scheduler held at most at a time, `kept`
    how many it knew of. `prefill_load` and `decode_load` are requests on engines of the role, per engine, on average.
    `service` is by tenant what its completed requests got: a token of the prompt counts when the first token comes, and
    tokens of the answer twice as much, evenly until the last one. `computed` leaves out what was reused of prompts.
    `sent` counts all of a request when it is sent off.
    """

    window_s: float
    arrived: list[int]
    good: list[int]
    finished_good: list[int]
    refused: list[int]
    ttft_p99_s: list[float | None]
    held: list[int]
    kept: list[int]
    prefill_load: list[float]
    decode_load: list[float]
    service: dict[str, list[float]]
    computed: dict[str, list[float]]
    sent: dict[str, list[float]]


@dataclass(slots=True)
class Sampler:
    """Looks at scheduler and engines several times per window, from the first look on until the run is over."""

    window_s: float
    at_s: "array[float]" = field(default_factory=lambda: array("d"))
    held: "array[float]" = field(default_factory=lambda: array("d"))
    kept: "array[float]" = field(default_factory=lambda: array("d"))
    prefill_load: "array[float]" = field(default_factory=lambda: array("d"))
    decode_load: "array[float]" = field(default_factory=lambda: array("d"))

    def watch(self, agenda: Agenda, scheduler: Scheduler, servers: Sequence[Server]) -> None:
        """Begin at the agenda's time."""
        prefilling = [server for server in servers if server.endpoint.role.prefills]
        decoding = [server for server in servers if server.endpoint.role.decodes]

        def look(now: float) -> None:
            agenda.add(now + self.window_s / SAMPLES_PER_WINDOW, Rank.REPORT, look)
            self.at_s.append(now)
            self.held.append(sum(one.state is State.HELD for one in scheduler.requests.values()))
            self.kept.append(len(scheduler.requests))
            self.prefill_load.append(_load(prefilling))
            self.decode_load.append(_load(decoding))

        look(agenda.now_s)

    def timeline(self, measures: Measures) -> Timeline:
        """What was seen and measured, once the run is over."""
        done = measures.completed
        windows = int(max([*self.at_s, measures.last_s], default=0.0) // self.window_s) + 1
        edges = np.arange(windows + 1, dtype=np.float64) * self.window_s

        def count(times_s: Figures) -> list[int]:
            return [int(number) for number in np.histogram(times_s, edges)[0]]

        def per_window(values: "array[float]", figure: Callable[[Figures], float]) -> list[float]:
            window = (np.array(self.at_s) // self.window_s).astype(int)
            seen = np.array(values)
            return [float(figure(seen[window == at])) if (window == at).any() else 0.0 for at in range(windows)]

        well = done.column("good") > 0
        arrived_s = done.column("arrived_s")
        tenants = done.parties.tenants()
        return Timeline(
            window_s=self.window_s,
            arrived=count(np.array(measures.arrivals_s)),
            good=count(arrived_s[well]),
            finished_good=count(done.column("done_s")[well]),
            refused=count(np.array(measures.refused_s)),
            ttft_p99_s=_p99_s(arrived_s, done.ttft_s, self.window_s, windows),
            held=[int(most) for most in per_window(self.held, np.max)],
            kept=[int(most) for most in per_window(self.kept, np.max)],
            prefill_load=per_window(self.prefill_load, np.mean),
            decode_load=per_window(self.decode_load, np.mean),
            service=_by_tenant(done, tenants, edges, _given),
            computed=_by_tenant(done, tenants, edges, _made),
            sent=_by_tenant(done, tenants, edges, _charged),
        )


def _load(servers: Sequence[Server]) -> float:
    """Requests per engine that lives."""
    engines = [server.engine for server in servers if server.engine is not None]
    return sum(engine.waiting + engine.running for engine in engines) / len(engines) if engines else 0.0


def _p99_s(arrived_s: Figures, ttft_s: Figures, window_s: float, windows: int) -> list[float | None]:
    window = (arrived_s // window_s).astype(int)
    found = [ttft_s[window == at] for at in range(windows)]
    return [float(np.percentile(each, 99)) if len(each) else None for each in found]


def _by_tenant(
    done: Completed,
    tenants: Mapping[str, Sequence[int]],
    edges: Figures,
    service: Callable[[Completed, NDArray[np.bool_], Figures], Figures],
) -> dict[str, list[float]]:
    if len(tenants) < 2:
        return {}
    party = np.array(done.party, dtype=int)
    return {name: service(done, np.isin(party, numbers), edges).tolist() for name, numbers in tenants.items()}


def _given(done: Completed, whose: NDArray[np.bool_], edges: Figures) -> Figures:
    """Weighted tokens per window, as they came."""
    return _over_time(done, whose, edges, done.column("prompt_tokens")[whose])


def _made(done: Completed, whose: NDArray[np.bool_], edges: Figures) -> Figures:
    """The same without reused ones."""
    return _over_time(done, whose, edges, (done.column("prompt_tokens") - done.column("cached_tokens"))[whose])


def _over_time(done: Completed, whose: NDArray[np.bool_], edges: Figures, prompt_tokens: Figures) -> Figures:
    first_s, done_s = done.column("first_s")[whose], done.column("done_s")[whose]
    prompts = np.histogram(first_s, edges, weights=PROMPT_WEIGHT * prompt_tokens)[0]
    outputs = OUTPUT_WEIGHT * done.column("output_tokens")[whose]
    lasts_s = np.maximum(done_s - first_s, 1e-9)
    so_far = [float(outputs @ np.clip((edge - first_s) / lasts_s, 0.0, 1.0)) for edge in edges]
    return np.asarray(prompts + np.diff(so_far), dtype=np.float64)


def _charged(done: Completed, whose: NDArray[np.bool_], edges: Figures) -> Figures:
    """Weighted tokens per window, all of a request's when it was sent off."""
    prompts, outputs = done.column("prompt_tokens")[whose], done.column("output_tokens")[whose]
    weights = PROMPT_WEIGHT * prompts + OUTPUT_WEIGHT * outputs
    return np.asarray(np.histogram(done.column("sent_s")[whose], edges, weights=weights)[0], dtype=np.float64)
