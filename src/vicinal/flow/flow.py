"""All that waits: added, taken in turn, given up when it has waited for too long or the queue is full.

By model, band, lane and tenant (docs/flow.md). Nothing here knows whether an endpoint has room: whoever asks for the
next turn says which lanes are closed.
"""

import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from vicinal.contracts.flow import Fairness, Ordering, Waiting
from vicinal.domain.ids import ModelId, RequestId
from vicinal.domain.request import Request
from vicinal.flow.aging import AgedTurns
from vicinal.flow.band_queue import BandQueue
from vicinal.flow.closed import Closed
from vicinal.flow.model_queue import ModelQueue, Turn
from vicinal.flow.tenants import Tenants


@dataclass(frozen=True, slots=True)
class FlowRules:
    """`queue_max` waits at most. `fairness` makes the rule of one band of a model."""

    queue_max: int
    fairness: Callable[[ModelId], Fairness]
    ordering: Ordering
    tenants: Tenants
    aged_share: float = 0.1
    aged_after: float = 0.25


class Flow:
    def __init__(self, rules: FlowRules) -> None:
        self._rules = rules
        self._models: dict[ModelId, ModelQueue] = {}
        self._waiting: dict[RequestId, Waiting] = {}
        self._deadlines: list[tuple[float, RequestId]] = []
        self._prefill_s: dict[ModelId, float] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, request_id: RequestId) -> bool:
        return request_id in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    @property
    def models(self) -> Mapping[ModelId, ModelQueue]:
        """Every model that was asked for, whether or not something waits for it now."""
        return self._models

    def waiting_for(self, model: ModelId) -> int:
        return len(self._models[model]) if model in self._models else 0

    def prefill_s(self, model: ModelId) -> float:
        """Predicted prefill seconds of all that waits for it."""
        return self._prefill_s.get(model, 0.0)

    def add(self, waiting: Waiting) -> Waiting | None:
        """Returns who has to go because the queue is full: from the lowest band, unless the newcomer's is lower, the
        newest of the tenant that has most waiting there for its weight. That may be the newcomer."""
        request = waiting.request
        self._waiting[request.id] = waiting
        heapq.heappush(self._deadlines, (waiting.until_s, request.id))
        self._prefill_s[request.model] = self.prefill_s(request.model) + waiting.prefill_s
        self._of(request.model).bands[request.band].add(waiting)
        if len(self._waiting) <= self._rules.queue_max:
            return None
        _, _, model, band = max(
            (band.rank, len(queue), model, band)
            for model, queues in self._models.items()
            for band, queue in queues.bands.items()
            if len(queue)
        )
        lowest = self._models[model].bands[band]
        return lowest.newest_of(lowest.largest(lambda tenant, held: held / self._rules.tenants.weight(tenant, model)))

    def remove(self, request_id: RequestId) -> Waiting | None:
        """None for a request that does not wait."""
        waiting = self._waiting.pop(request_id, None)
        if waiting is None:
            return None
        request = waiting.request
        model = self._models[request.model]
        model.bands[request.band].remove(waiting)
        left_s = self._prefill_s[request.model] - waiting.prefill_s
        self._prefill_s[request.model] = left_s if len(model) else 0.0
        if len(self._deadlines) > 2 * len(self._waiting) + 16:
            self._deadlines = [each for each in self._deadlines if self._stands(each)]
            heapq.heapify(self._deadlines)
        return waiting

    def ahead_of(self, waiting: Waiting) -> tuple[float, int]:
        """What would go before it if it waited from now on and nobody else came: predicted prefill seconds, and how
        many. Of its own band that is what each tenant gets while this one's turn comes: shares by weight, as in
        processor sharing."""
        request = waiting.request
        seconds, number = 0.0, 0.0
        if request.model not in self._models:
            return 0.0, 0
        for band, queue in self._models[request.model].bands.items():
            if band.rank < request.band.rank:
                seconds += sum(queue.prefill_s.values())
                number += len(queue)
        queue = self.band(request)
        own = queue.prefill_s.get(request.tenant, 0.0)
        per_weight = (own + waiting.prefill_s) / self._rules.tenants.weight(request.tenant, request.model)
        for tenant, of_tenant_s in queue.prefill_s.items():
            fair_s = per_weight * self._rules.tenants.weight(tenant, request.model)
            before_s = of_tenant_s if tenant == request.tenant else min(of_tenant_s, fair_s)
            seconds += before_s
            number += queue.waiting[tenant] * (before_s / of_tenant_s if of_tenant_s else 1.0)
        return seconds, int(number)

    def next(self, model: ModelId, closed: Closed, begins_s: float, now: float) -> Turn | None:
        """Whose turn it is among those that wait for `model`; it goes on waiting until it is removed."""
        return self._models[model].next(closed, begins_s, now)

    def sent(self, request: Request, cached_tokens: int, prefill_s: float, *, aged: bool) -> None:
        """A request is sent off, at once or when its turn came; it counts as its tenant's service."""
        self._of(request.model).aging.sent(prefill_s, aged=aged)
        self.band(request).fairness.charge(request, cached_tokens)

    def answered(self, request: Request, output_tokens: int) -> None:
        """A request that was sent off is over, and this is how long its answer was."""
        self.band(request).fairness.correct(request, output_tokens)

    def band(self, request: Request) -> BandQueue:
        return self._of(request.model).bands[request.band]

    def next_deadline_s(self) -> float | None:
        while self._deadlines and not self._stands(self._deadlines[0]):
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def expired(self, now: float) -> list[Waiting]:
        """Those that have waited for too long, the most overdue first; they go on waiting until they are removed."""
        due = sorted(each for each in self._deadlines if each[0] <= now and self._stands(each))
        return [self._waiting[request_id] for _, request_id in due]

    def _stands(self, deadline: tuple[float, RequestId]) -> bool:
        waiting = self._waiting.get(deadline[1])
        return waiting is not None and waiting.until_s == deadline[0]

    def _of(self, model: ModelId) -> ModelQueue:
        if model not in self._models:
            aging = AgedTurns(self._rules.aged_share, self._rules.aged_after)
            self._models[model] = ModelQueue(lambda: self._rules.fairness(model), self._rules.ordering, aging)
        return self._models[model]
