"""What the scheduler counts and times, for Prometheus, in a registry of its own: two may run in one process.

Names are the seed document's with the prefix `vicinal_` and Prometheus' suffixes; docs/metrics.md has the table. Labels
are bounded: endpoints are the configuration's, and of tenants only the first `TENANTS_MAX` have a name, the others
share "other". A figure that an engine does not give has no series; it is never zero.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from vicinal.domain.decision import TERMS, Decision, Observation
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Action, Leg
from vicinal.domain.report import EndpointReport
from vicinal.observe.bounded_names import BoundedNames
from vicinal.observe.counted import Counted, Spread
from vicinal.observe.flow_metrics import FlowMetrics
from vicinal.observe.read_gauge import Labels, ReadGauge

TENANTS_MAX = 100
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""Of what `Metrics.expose` returns."""

_WAIT_PREFILL = TERMS.index("wait_prefill")
_DECIDE_S = (5e-5, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3, 3.2e-3, 6.4e-3, 0.0128, 0.0256, 0.1)
_TTFT_S = (0.01, 0.025, 0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0)
_TPOT_S = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.2, 0.4, 1.0)
_DECODE_S = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0, 300.0)
_ERROR_TOKENS = (0.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 65536.0)
_WAIT_S = (0.0, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one scheduler. `fleet` gives what reports are to be read against (bytes per token of KV); `flow`
    has those of queues, refusals and tenants."""

    def __init__(self, fleet: Iterable[Endpoint] = ()) -> None:
        self.registry = registry = CollectorRegistry()
        self._fleet: dict[EndpointId, Endpoint] = {}
        self._tenants = BoundedNames(TENANTS_MAX)
        self._feeds = _Feeds()
        registry.register(self._feeds)
        self.flow = FlowMetrics(registry, self._tenants)

        def counter(name: str, text: str, *labels: str) -> Counted:
            return Counted(f"vicinal_{name}", text, labels, registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"vicinal_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Spread:
            return Spread(f"vicinal_{name}_seconds", text, buckets, labels, registry)

        self._decisions = counter("scheduler_decisions", "Decisions made", "policy", "leg", "action")
        self._tenant_decisions = counter("tenant_decisions", "Decisions made for a tenant", "tenant")
        self._verdicts = counter("verdicts", "Endpoints left out of a decision", "rule")
        self._latency = histogram("scheduler_latency", "Time to make a decision", _DECIDE_S)
        self._held = histogram("scheduler_wait", "From a request's arrival to its first decision", _WAIT_S)
        self._queue = gauge("scheduler_queue_length", "Requests that the scheduler holds")
        self._batch_wait = histogram("batch_wait_time", "Expected wait of chosen plans for a prefill batch", _WAIT_S)
        self._reads = counter("remote_cache_reads", "Decisions to read KV from a remote holder")
        self._migrations = counter("cache_migrations_triggered_by_schedule", "Decisions to migrate KV")
        self._requests = counter("requests", "Requests that ended", "ending")
        self._rejects = counter("schedule_rejects", "Requests refused before any engine had them", "ending")
        self._failures = counter("worker_assignment_failures", "Attempts that an engine did not carry out")
        self._ttft = histogram("request_ttft", "Time to first token, observed", _TTFT_S)
        self._tpot = histogram("request_tpot", "Time per output token, observed", _TPOT_S)
        self._decode = histogram("decode_latency", "From first token to last, observed", _DECODE_S)
        self._error = histogram("prediction_error", "Observed minus predicted, absolute", _WAIT_S, "figure")
        self._cached = counter("cache_observed_tokens", "Prompt tokens reused, as engines say")
        self._cached_predicted = counter(
            "cache_predicted_tokens", "Prompt tokens predicted to be reused, same requests"
        )
        self._prefix_error = Spread(
            "vicinal_prefix_prediction_error",
            "Prompt tokens reused minus predicted, absolute",
            _ERROR_TOKENS,
            (),
            registry,
        )
        self._prefix_checks = counter("prefix_checks", "Predictions of reuse by how they came out", "endpoint", "cause")
        self._prefix_missed = counter(
            "prefix_error_tokens", "Prompt tokens by which predictions were wrong", "endpoint", "cause"
        )
        self._promised = counter(
            "handoff_promised_tokens", "Prompt tokens of decode legs by what plans say", "endpoint", "kind"
        )
        self._by_source = gauge(
            "engine_prompt_tokens", "Prompt tokens since engine start by where their KV came from", "endpoint", "source"
        )
        self._copies = counter("copies", "Copies of prefixes that ended", "ending")
        self._warnings = counter("warnings", "Warnings to the operator", "kind")
        self._waiting = gauge("worker_queue_length", "Requests that wait in an engine", "endpoint")
        self._running = gauge("batch_size", "Requests that run in an engine", "endpoint")
        self._utilization = gauge("gpu_utilization_ratio", "Share of GPU time in use, where told", "endpoint")
        self._kv_usage = gauge("gpu_kv_usage_ratio", "Share of KV blocks in use", "endpoint")
        self._hbm = gauge("gpu_hbm_used_bytes", "HBM in use for KV", "endpoint")
        self._hit_ratio = gauge("cache_local_hit_ratio", "Prefix cache hits by queries since engine start", "endpoint")
        self._per_endpoint = (
            self._waiting,
            self._running,
            self._utilization,
            self._kv_usage,
            self._hbm,
            self._hit_ratio,
        )
        self.fleet(fleet)

    def fleet(self, endpoints: Iterable[Endpoint]) -> None:
        """The fleet is now exactly these endpoints: series of others end."""
        present = {endpoint.id: endpoint for endpoint in endpoints}
        for gone in self._fleet.keys() - present.keys():
            self._feeds.forget(gone)
            for gauge in self._per_endpoint:
                with suppress(KeyError):
                    gauge.remove(gone)
            self._by_source.remove_by_labels({"endpoint": gone})
            for counted in (self._prefix_checks, self._prefix_missed, self._promised):
                counted.forget(gone)
        self._fleet = present

    def decided(self, decision: Decision, seconds: float | None = None) -> None:
        """A decision was made; `seconds` is how long that took, if it was measured."""
        action = decision.chosen.plan.action
        self._decisions.inc(decision.policy, decision.leg.value, action.value)
        self._tenant_decisions.inc(self._tenants.of(decision.tenant_id))
        self._queue.set(decision.queue_length)
        if seconds is not None:
            self._latency.observe(seconds)
        if decision.leg is not Leg.DECODE:
            wait_s = decision.chosen.terms[_WAIT_PREFILL]
            if wait_s is not None:
                self._batch_wait.observe(wait_s)
            if decision.attempt <= 1:
                self._held.observe(decision.at_s - decision.arrived_s)
        else:
            plan = decision.chosen.plan
            self._promised.inc(plan.decode, "moved", by=plan.moved_tokens)
            self._promised.inc(plan.decode, "held", by=plan.held_tokens)
        if action is Action.REMOTE_READ:
            self._reads.inc()
        elif action is Action.MIGRATE and decision.leg is not Leg.DECODE:
            self._migrations.inc()
        for verdict in decision.verdicts:
            self._verdicts.inc(verdict.rule.value)

    def observed(self, seen: Observation) -> None:
        """A request that the core took is over. A copy is no client's request, and counts for itself alone."""
        if seen.copy_to is not None:
            self._copies.inc(str(seen.ending))
            return
        self._ended(seen.ending)
        self.flow.observed(seen)
        failures = max(0, seen.attempts - 1) + Ending(seen.ending).failed
        if failures:
            self._failures.inc(by=failures)
        if seen.ttft_s is not None:
            self._ttft.observe(seen.ttft_s)
            if seen.ending == Ending.DONE:
                self._decode.observe(seen.e2e_s - seen.ttft_s)
        if seen.tpot_s is not None:
            self._tpot.observe(seen.tpot_s)
        self._compare("ttft", seen.predicted_ttft_s, seen.ttft_s)
        self._compare("tpot", seen.predicted_tpot_s, seen.tpot_s)
        self._compare("prefill", seen.predicted_prefill_s, seen.prefill_s)
        if seen.cached_tokens is not None and seen.predicted_cached_tokens is not None:
            self._cached.inc(by=seen.cached_tokens)
            self._cached_predicted.inc(by=seen.predicted_cached_tokens)
        self._check_prefix(seen)

    def reported(self, report: EndpointReport) -> None:
        """An engine said how it is."""
        endpoint = report.endpoint
        _set(self._waiting, endpoint, report.waiting)
        _set(self._running, endpoint, report.running)
        _set(self._utilization, endpoint, report.gpu_utilization)
        _set(self._kv_usage, endpoint, report.kv_usage)
        _set(self._hbm, endpoint, self._hbm_bytes(report))
        queries, hits = report.prefix_queries_tokens, report.prefix_hits_tokens
        _set(self._hit_ratio, endpoint, hits / queries if queries and hits is not None else None)
        for source, tokens in (
            ("computed", report.prompt_computed_tokens),
            ("reused", report.prompt_reused_tokens),
            ("pulled", report.prompt_pulled_tokens),
        ):
            _set(self._by_source, endpoint, tokens, source)

    def queued(self, requests: int) -> None:
        """The scheduler holds this many requests now."""
        self._queue.set(requests)

    def warned(self, warning: Warn) -> None:
        self._warnings.inc(warning.kind)

    def follow(self, endpoint: EndpointId, feed: str, counts: Mapping[str, int]) -> None:
        """Expose a feed's `counts`, as they are at each exposition; `feed` is for example "kv_events"."""
        self._feeds.follow(endpoint, feed, counts)

    def count(self, name: str, text: str, read: Callable[[], Mapping[str, int]]) -> None:
        """Expose somebody's own counters as `vicinal_NAME_total` by kind; `read` is asked at each exposition."""
        self.registry.register(_Counts(f"vicinal_{name}", text, read))

    def gauge(self, name: str, text: str, labels: Labels, read: Callable[[], Mapping[Labels, float]]) -> None:
        """Expose somebody's own figures as the gauge `vicinal_NAME`; `read` is asked at each exposition."""
        self.registry.register(ReadGauge(f"vicinal_{name}", text, labels, read))

    def expose(self) -> bytes:
        """The page, in Prometheus' text format (`CONTENT_TYPE`)."""
        return generate_latest(self.registry)

    def _ended(self, ending: str) -> None:
        self._requests.inc(str(ending))
        if Ending(ending).refused:
            self._rejects.inc(str(ending))

    def _compare(self, figure: str, predicted: float | None, seen: float | None) -> None:
        if predicted is not None and seen is not None:
            self._error.observe(abs(seen - predicted), figure)

    def _check_prefix(self, seen: Observation) -> None:
        """Whether reuse came out as predicted. An endpoint that has left gets no series."""
        if seen.reuse is None or seen.prefill not in self._fleet:
            return
        self._prefix_checks.inc(seen.prefill, seen.reuse.value)
        if seen.cached_tokens is not None and seen.predicted_cached_tokens is not None:
            missed = abs(seen.cached_tokens - seen.predicted_cached_tokens)
            self._prefix_error.observe(missed)
            if missed:
                self._prefix_missed.inc(seen.prefill, seen.reuse.value, by=missed)

    def _hbm_bytes(self, report: EndpointReport) -> float | None:
        known = self._fleet.get(report.endpoint)
        if known is None or report.kv_usage is None:
            return None
        blocks = known.kv_blocks if report.kv_blocks is None else report.kv_blocks
        block_tokens = known.block_tokens if report.block_tokens is None else report.block_tokens
        return report.kv_usage * blocks * block_tokens * known.kv_bytes_per_token


class _Counts(Collector):
    """Plain integers that a hot path bumps, read when a page is asked for."""

    def __init__(self, name: str, text: str, read: Callable[[], Mapping[str, int]]) -> None:
        self._name = name
        self._text = text
        self._read = read

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=("kind",))
        for kind, count in sorted(self._read().items()):
            family.add_metric((str(kind),), count)
        yield family


class _Feeds(Collector):
    """Reads the feeds' own counters when a page is asked for, so that feeds need not know of metrics."""

    def __init__(self) -> None:
        self._counts: dict[tuple[EndpointId, str], Mapping[str, int]] = {}

    def follow(self, endpoint: EndpointId, feed: str, counts: Mapping[str, int]) -> None:
        self._counts[endpoint, feed] = counts

    def forget(self, endpoint: EndpointId) -> None:
        self._counts = {key: counts for key, counts in self._counts.items() if key[0] != endpoint}

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "vicinal_feed_events", "What the feeds of an endpoint met", labels=("endpoint", "feed", "kind")
        )
        for (endpoint, feed), counts in self._counts.items():
            for kind, count in sorted(counts.items()):
                family.add_metric((endpoint, feed, kind), count)
        yield family


def _set(gauge: Gauge, endpoint: EndpointId, value: float | None, *labels: str) -> None:
    """An Unknown figure has no series, also when it was known before."""
    if value is not None:
        gauge.labels(endpoint, *labels).set(value)
    else:
        with suppress(KeyError):
            gauge.remove(endpoint, *labels)
