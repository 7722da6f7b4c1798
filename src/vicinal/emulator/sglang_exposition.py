"""`/metrics` of an emulated SGLang engine (`--enable-metrics`): one engine's figures under SGLang's names.

Times are model seconds. One scheduler process speaks: tensor rank 0.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from vicinal.emulator.exposition import LATENCY_S, REQUEST_S, Histogram
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.work import Finished

_LABELS = ["engine_type", "model_name", "pp_rank", "tp_rank"]


class SGLangMetrics(Collector):
    """Collects from the engine itself whatever it counts. `finished` counts the ends of legs by reason."""

    def __init__(self, engine: Engine, model: str, engine_type: str) -> None:
        self._engine = engine
        self._model = model
        self._values = [engine_type, model, "0", "0"]
        self.finished = dict.fromkeys(("stop", "length", "abort", "error"), 0)
        self.between = Histogram(LATENCY_S)
        self._first_token = Histogram(LATENCY_S)
        self._whole = Histogram(REQUEST_S)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def leg_finished(self, end: Finished, reason: str) -> None:
        self.finished[reason] += 1
        self._first_token.observe(end.first_token_s - end.arrived_s)
        self._whole.observe(end.finished_s - end.arrived_s)

    def collect(self) -> Iterator[Metric]:
        engine = self._engine
        pool, spec, counts = engine.memory.pool, engine.spec, engine.counters
        used = pool.used / pool.blocks
        yield self._gauge("num_running_reqs", "The number of running requests", engine.running)
        yield self._gauge("num_queue_reqs", "The number of requests in the waiting queue", engine.waiting)
        yield self._gauge("token_usage", "The token usage", used)
        yield self._gauge("full_token_usage", "The token usage of the full attention pool", used)
        yield self._gauge("page_size", "Tokens of a page", spec.block_tokens)
        yield self._gauge("num_pages", "Pages of the pool", spec.blocks)
        yield self._gauge("max_total_num_tokens", "Tokens of the pool", spec.tokens)
        yield self._gauge("cache_hit_rate", "Zeroed at every decode report, as in the original", 0.0)
        computed = counts.computed_tokens + counts.prefix_hits_tokens + counts.external_hits_tokens
        yield self._counter("prompt_tokens", "Prompt tokens processed", computed)
        cached = CounterMetricFamily("sglang:cached_tokens", "Cached prompt tokens", labels=["cache_source", *_LABELS])
        cached.add_metric(["device", *self._values], counts.prefix_hits_tokens)
        yield cached
        yield self._counter("generation_tokens", "Generated tokens", counts.generated_tokens)
        yield self._counter("num_requests", "Requests processed", sum(self.finished.values()))
        yield self._counter("num_retracted_requests", "Requests retracted", counts.preemptions)
        yield self._first_token.family("sglang:time_to_first_token_seconds", "Time to first token.", self._model)
        yield self.between.family("sglang:inter_token_latency_seconds", "Time between tokens.", self._model)
        yield self._whole.family("sglang:e2e_request_latency_seconds", "Time from arrival to end.", self._model)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"sglang:{name}", text, labels=_LABELS)
        family.add_metric(self._values, value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"sglang:{name}", text, labels=_LABELS)
        family.add_metric(self._values, value)
        return family
