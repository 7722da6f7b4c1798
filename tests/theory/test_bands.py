"""Bands against theory: one server, two classes, non-preemptive priority (Cobham, Operations Research 2(1), 1954).

W1 = R / (1 - r1) and W2 = R / ((1 - r1) (1 - r1 - r2)), with R = l E[S²] / 2 over both classes: the interactive band
waits as if the other were not there but for the one in service, and the batch band for everybody. The scheduler is told
that an engine takes one request at a time, so all waiting is its own and in its order. Aging is off, or on.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.theory.estimate import SPREAD, estimate
from tests.theory.queues import Floats, Sample, System, build, fleet, poisson
from vicinal.domain.ids import ModelId
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.policies.registry import policy
from vicinal.scheduler.scheduler import Scheduler
from vicinal.sim.requests import Foresight, RequestMaker
from vicinal.workload.arrival import Arrival

LOADS = (0.3, 0.5)
"""Of the interactive band and of the batch band; the mean service is one second."""
PATIENCE_S = 1000.0
"""Longer than anybody waits here."""
KINDS = (
    replace(INTERACTIVE, ttft_floor_s=math.inf),
    replace(BATCH, wait_s_max=PATIENCE_S, ttft_floor_s=math.inf),
)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Two samples as one; `kind` is 0 or 1 per request."""

    both: Sample
    kind: "np.ndarray[tuple[int], np.dtype[np.int64]]"

    @classmethod
    def made(cls, count: int, service: str, seed: int) -> "Mixed":
        """`count` of the batch kind, and as many of the other as come in the same time."""
        ratio = LOADS[0] / LOADS[1]
        samples = [
            poisson(int(n), load, service, seed + k)
            for k, (n, load) in enumerate(zip((count * ratio, count), LOADS, strict=True))
        ]
        at_s = np.concatenate([sample.at_s for sample in samples])
        order = np.argsort(at_s, kind="stable")
        service_s = np.concatenate([sample.service_s for sample in samples])[order]
        kind = np.repeat([0, 1], [len(sample) for sample in samples])[order]
        return cls(Sample(at_s[order], service_s), kind)

    def arrivals(self) -> Iterator[Arrival]:
        for arrival, kind in zip(self.both.arrivals(), self.kind, strict=True):
            yield replace(arrival, service=KINDS[kind].name)


def strict_priority(mixed: Mixed) -> Floats:
    """Time in the system of each request, by a few lines that know nothing of schedulers."""
    at_s, service_s = mixed.both.at_s, mixed.both.service_s
    waiting: list[tuple[int, int]] = []
    free_s, nxt = 0.0, 0
    out = np.empty(len(at_s))
    while nxt < len(at_s) or waiting:
        if not waiting:
            free_s = max(free_s, at_s[nxt])
        while nxt < len(at_s) and at_s[nxt] <= free_s:
            heapq.heappush(waiting, (int(mixed.kind[nxt]), nxt))
            nxt += 1
        _, which = heapq.heappop(waiting)
        free_s += service_s[which]
        out[which] = free_s - at_s[which]
    return out


def simulated(mixed: Mixed, aged_share: float) -> Floats:
    def scheduler(*parts) -> Scheduler:
        *rest, settings = parts
        aging = replace(settings.flow, aged_share=aged_share, aged_after=5.0 / PATIENCE_S)
        return Scheduler(*rest, replace(settings, flow=aging))

    made = build(
        fleet(System(told_sequences=1)),
        mixed.arrivals(),
        policy("round_robin"),
        System(told_sequences=1),
        make_scheduler=scheduler,
    )
    kinds = {kind.name: kind for kind in KINDS}
    made._requests = RequestMaker(ModelId("m"), 1 << 20, 1 << 20, kinds, Foresight.KNOWN)
    made.run(lambda _arrived, _now: None)
    done = made.measures.completed
    order = np.argsort(done.column("arrived_s"), kind="stable")
    return (done.column("done_s") - done.column("arrived_s"))[order]


@pytest.mark.parametrize("service", ["exponential", "fixed"])
def test_bands_are_strict_priority_and_wait_as_theory_says(service):
    mixed = Mixed.made(1500, service, 21)
    control = strict_priority(mixed)
    ours = simulated(mixed, 0.0)
    assert np.abs(ours - control).max() < 1e-6
    longer = Mixed.made(400_000, service, 31)
    waits_s = strict_priority(longer) - longer.both.service_s
    residual_s = sum(LOADS) * {"exponential": 2.0, "fixed": 1.0}[service] / 2
    first, both = 1 - LOADS[0], 1 - sum(LOADS)
    for kind, theory in enumerate((residual_s / first, residual_s / (first * both))):
        found = estimate(waits_s[longer.kind == kind])
        assert SPREAD * found.error < 0.1 * theory
        assert found.agrees_with(theory)


def test_aging_moves_waiting_from_the_lower_band_to_the_higher_and_makes_none():
    """Whoever goes first, the work is the same: for equal services the mean wait of all is (Kleinrock's law)."""
    mixed = Mixed.made(1500, "fixed", 41)
    never, some = simulated(mixed, 0.0), simulated(mixed, 0.3)
    assert never.mean() == pytest.approx(some.mean())
    assert some[mixed.kind == 1].mean() < 0.95 * never[mixed.kind == 1].mean()
    assert some[mixed.kind == 0].mean() > never[mixed.kind == 0].mean()
