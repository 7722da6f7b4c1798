"""What waits in the scheduler: for operators a row per queue and what its first one waits for, for metrics the sums."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from vicinal.contracts.flow import Waiting
from vicinal.domain.band import Band
from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.lane import Lane
from vicinal.flow.band_queue import BandQueue
from vicinal.observe.flow_metrics import QueueGauge
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.states import State

ROWS_MAX = 200


class _Head(NamedTuple):
    """The first of one tenant's queue in one lane. `first` is whose turn it is in that lane."""

    waiting: Waiting
    first: Waiting
    held: int
    oldest_since_s: float
    service: float | None


def shown_queues(scheduler: Scheduler, now: float) -> Mapping[str, Any]:
    """At most `ROWS_MAX` queues, in the order of their turns: model, band, lane; `queues_left_out` counts the others.

    `next` are those whose turn it is, one in each lane of the highest band. `service` is the tenant's virtual counter
    in this band: tokens over its weight, None where fairness does not count. `in_flight` are the tenant's requests for
    the model that wait no more.
    """
    in_flight = Counter(
        (tracked.request.model, tracked.request.tenant)
        for tracked in scheduler.requests.values()
        if tracked.state is not State.HELD
    )
    rows: list[Mapping[str, Any]] = []
    left_out = 0
    for model in scheduler.turns.flow.models.values():
        above = ""
        for band, queue in model.bands.items():
            for head in _heads(queue):
                if len(rows) < ROWS_MAX:
                    rows.append(_row(scheduler, head, above, in_flight, now))
                else:
                    left_out += 1
            if len(queue) and not above:
                above = f"band {band}"
    return {"queues": rows, "queues_left_out": left_out}


def queue_gauges(scheduler: Scheduler, now: float) -> Iterator[QueueGauge]:
    """Each lane of each band, those in which nothing waits too, over all models."""
    held: Counter[tuple[Band, Lane]] = Counter()
    since_s: dict[tuple[Band, Lane], float] = {}
    for waiting in scheduler.turns.flow:
        place = waiting.request.band, waiting.lane
        held[place] += 1
        since_s[place] = min(waiting.since_s, since_s.get(place, now))
    for band in Band:
        for lane in Lane:
            place = band, lane
            yield QueueGauge(band, lane, held[place], now - since_s.get(place, now))


def _heads(queue: BandQueue) -> Iterator[_Head]:
    """In each lane, whose turn it is before the others."""
    since_s: dict[tuple[Lane, TenantId], float] = {}
    for waiting in queue:
        since_s.setdefault((waiting.lane, waiting.request.tenant), waiting.since_s)
    numbers = queue.counts()
    for lane in Lane:
        heads = queue.heads(lane)
        if heads:
            first = queue.fairness.pick(heads)
            for head in sorted(heads, key=lambda each: each is not first):
                tenant = head.request.tenant
                yield _Head(head, first, numbers[lane, tenant], since_s[lane, tenant], queue.fairness.service(tenant))


def _row(
    scheduler: Scheduler, head: _Head, above: str, in_flight: Mapping[tuple[ModelId, TenantId], int], now: float
) -> Mapping[str, Any]:
    """`above` says who of a higher band goes first, "" for nobody."""
    request, turns = head.waiting.request, scheduler.turns
    before = above or ("" if head.waiting is head.first else f"tenant {head.first.request.tenant}")
    return {
        "model": request.model,
        "band": request.band,
        "lane": head.waiting.lane,
        "tenant": request.tenant,
        "held": head.held,
        "oldest_s": now - head.oldest_since_s,
        "service": head.service,
        "weight": scheduler.settings.tenants.weight(request.tenant, request.model),
        "in_flight": in_flight.get((request.model, request.tenant), 0),
        "next": not before,
        "waits_for": f"its turn: {before} goes first" if before else str(turns.what_for(head.waiting, now)),
    }
