"""What is counted of flow: how long requests were held, what was refused and why, and each tenant's share of it.

What was is counted as requests end; what is (queues) is read when a page is asked for.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from vicinal.domain.decision import Observation
from vicinal.domain.outcome import Ending
from vicinal.observe.bounded_names import BoundedNames
from vicinal.observe.counted import Counted, Spread

DETAILS_MAX = 100
_HELD_S = (0.0, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)


class QueueGauge(Struct, frozen=True):
    """What waits now in one lane of one band: how many requests, and for how long the oldest has."""

    band: str
    lane: str
    held: int
    oldest_s: float


class FlowMetrics:
    """`tenants` names them as the scheduler's other metrics do."""

    def __init__(self, registry: CollectorRegistry, tenants: BoundedNames) -> None:
        def counter(name: str, text: str, *labels: str) -> Counted:
            return Counted(f"vicinal_{name}", text, labels, registry)

        self._tenants = tenants
        self._details = BoundedNames(DETAILS_MAX)
        self._held = Spread(
            "vicinal_held_seconds", "How long a request that is over was held", _HELD_S, ("band", "lane"), registry
        )
        self._refusals = counter("refusals", "Requests refused, by which bound", "ending", "detail")
        self._requests = counter("tenant_requests", "Requests of a tenant that ended", "tenant")
        self._tokens = counter("tenant_tokens", "Tokens of a tenant's requests that were answered", "tenant", "kind")
        self._held_s = counter("tenant_held_seconds", "Seconds for which a tenant's requests were held", "tenant")
        self._refused = counter("tenant_refusals", "Requests of a tenant that were refused", "tenant", "ending")
        self._now = _Now()
        registry.register(self._now)

    def observed(self, seen: Observation) -> None:
        """A request of a client is over."""
        ending, tenant = Ending(seen.ending), self._tenants.of(seen.tenant_id)
        self._held.observe(seen.held_s, seen.band, seen.lane)
        self._requests.inc(tenant)
        if seen.held_s:
            self._held_s.inc(tenant, by=seen.held_s)
        if ending.refused:
            self._refusals.inc(ending.value, self._details.of(seen.detail))
            self._refused.inc(tenant, ending.value)
        if ending is Ending.DONE:
            if seen.prompt_tokens is not None:
                self._tokens.inc(tenant, "prompt", by=seen.prompt_tokens)
            if seen.output_tokens is not None:
                self._tokens.inc(tenant, "output", by=seen.output_tokens)

    def follow(self, queues: Callable[[], Iterable[QueueGauge]]) -> None:
        """Ask this at each exposition."""
        self._now.queues = queues


class _Now(Collector):
    """As it is at the moment of an exposition."""

    def __init__(self) -> None:
        self.queues: Callable[[], Iterable[QueueGauge]] = tuple

    def collect(self) -> Iterator[Metric]:
        held = GaugeMetricFamily("vicinal_held_requests", "Requests that are held now", labels=("band", "lane"))
        oldest = GaugeMetricFamily(
            "vicinal_held_oldest_seconds", "How long the oldest of them has been held", labels=("band", "lane")
        )
        for queue in self.queues():
            held.add_metric((queue.band, queue.lane), queue.held)
            oldest.add_metric((queue.band, queue.lane), queue.oldest_s)
        yield from (held, oldest)
