"""`/metrics`: one engine's figures under vLLM's names, in Prometheus' text format.

Times are model seconds. `engine` is the data parallel rank, always 0 here.
"""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.work import Finished

# fmt: off
LATENCY_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
              80.0, 160.0, 640.0, 2560.0)
_BETWEEN_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
REQUEST_S = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
              960.0, 1920.0, 7680.0)
_BYTES = tuple(2.0 ** (11 + 2 * i) for i in range(12))
# fmt: on


class Histogram:
    """Counts by upper bound. Several equal observations cost no more than one."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def family(self, name: str, text: str, model: str) -> Metric:
        bounds = [*(str(bound) for bound in self._bounds), "+Inf"]
        buckets = list(zip(bounds, map(float, accumulate(self._counts)), strict=True))
        family = HistogramMetricFamily(name, text, labels=_LABELS)
        family.add_metric(["0", model], buckets, self._sum)
        return family


_LABELS = ["engine", "model_name"]


class EngineMetrics(Collector):
    """Collects from the engine itself whatever it counts, and adds times from the legs that finish."""

    def __init__(self, engine: Engine, model: str, block_bytes: int) -> None:
        self._engine = engine
        self._model = model
        self._block_bytes = block_bytes
        self.finished = dict.fromkeys(("stop", "length", "abort", "error"), 0)
        self.between = Histogram(_BETWEEN_S)
        self._first_token = Histogram(LATENCY_S)
        self._queue = Histogram(REQUEST_S)
        self._prefill = Histogram(REQUEST_S)
        self._decode = Histogram(REQUEST_S)
        self._whole = Histogram(REQUEST_S)
        self._pulled_bytes = Histogram(_BYTES)
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def leg_finished(self, end: Finished, reason: str) -> None:
        self.finished[reason] += 1
        self._first_token.observe(end.first_token_s - end.arrived_s)
        self._queue.observe(end.started_s - end.arrived_s)
        self._prefill.observe(end.first_token_s - end.started_s)
        self._decode.observe(end.finished_s - end.first_token_s)
        self._whole.observe(end.finished_s - end.arrived_s)
        if end.pulled_tokens:
            blocks = -(-end.pulled_tokens // self._engine.spec.block_tokens)
            self._pulled_bytes.observe(float(blocks * self._block_bytes))

    def collect(self) -> Iterator[Metric]:
        yield from self._gauges()
        yield from self._counters()
        yield self._first_token.family("vllm:time_to_first_token_seconds", "Time to first token.", self._model)
        yield self.between.family("vllm:inter_token_latency_seconds", "Time between tokens.", self._model)
        yield self._queue.family("vllm:request_queue_time_seconds", "Time in the queue.", self._model)
        yield self._prefill.family("vllm:request_prefill_time_seconds", "Time in prefill.", self._model)
        yield self._decode.family("vllm:request_decode_time_seconds", "Time in decode.", self._model)
        yield self._whole.family("vllm:e2e_request_latency_seconds", "Time from arrival to end.", self._model)
        yield self._pulled_bytes.family("vllm:nixl_bytes_transferred", "Bytes of one KV transfer.", self._model)

    def _gauges(self) -> Iterator[Metric]:
        engine = self._engine
        pool = engine.memory.pool
        deferred = engine.deferred
        yield self._gauge("num_requests_running", "Requests in the batch.", engine.running)
        yield self._gauge("num_requests_waiting", "Requests that wait.", engine.waiting)
        by_reason = {"capacity": engine.waiting - deferred, "deferred": deferred}
        yield self._gauges_by("num_requests_waiting_by_reason", "Requests that wait, by reason.", "reason", by_reason)
        yield self._gauge("kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1.", pool.used / pool.blocks)
        info = GaugeMetricFamily(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            labels=["block_size", "enable_prefix_caching", "engine", "kv_cache_size_tokens", "num_gpu_blocks"],
        )
        spec = engine.spec
        info.add_metric([str(spec.block_tokens), "True", "0", str(spec.tokens), str(spec.blocks)], 1.0)
        yield info

    def _counters(self) -> Iterator[Metric]:
        c = self._engine.counters
        yield self._counter("prefix_cache_queries", "Prompt tokens looked up.", c.prefix_queries_tokens)
        yield self._counter("prefix_cache_hits", "Prompt tokens found.", c.prefix_hits_tokens)
        external = c.external_hits_tokens
        yield self._counter("external_prefix_cache_queries", "Tokens missed locally.", c.external_queries_tokens)
        yield self._counter("external_prefix_cache_hits", "Tokens found elsewhere.", external)
        yield self._counter("num_preemptions", "Preemptions.", c.preemptions)
        yield self._counter("prompt_tokens", "Prompt tokens.", c.computed_tokens + c.prefix_hits_tokens + external)
        sources = {
            "local_compute": c.computed_tokens,
            "local_cache_hit": c.prefix_hits_tokens,
            "external_kv_transfer": external,
        }
        yield self._counters_by("prompt_tokens_by_source", "Prompt tokens, by source.", "source", sources)
        yield self._counter("generation_tokens", "Generated tokens.", c.generated_tokens)
        yield self._counters_by("request_success", "Requests finished.", "finished_reason", self.finished)
        rejections = CounterMetricFamily(
            "vllm:admission_rejections", "Requests refused by a queue limit.", labels=["model_name", "reason"]
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            rejections.add_metric([self._model, reason], 0.0)
        yield rejections
        yield self._counter("nixl_num_failed_transfers", "KV transfers that failed.", self.finished["error"])
        yield self._counter("nixl_num_kv_expired_reqs", "Leases of KV that ran out.", c.leases_expired)

    def _gauge(self, name: str, text: str, value: float) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=_LABELS)
        family.add_metric(["0", self._model], value)
        return family

    def _gauges_by(self, name: str, text: str, label: str, values: dict[str, int]) -> Metric:
        family = GaugeMetricFamily(f"vllm:{name}", text, labels=[*_LABELS, label])
        for key, value in values.items():
            family.add_metric(["0", self._model, key], value)
        return family

    def _counter(self, name: str, text: str, value: float) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=_LABELS)
        family.add_metric(["0", self._model], value)
        return family

    def _counters_by(self, name: str, text: str, label: str, values: dict[str, int]) -> Metric:
        family = CounterMetricFamily(f"vllm:{name}", text, labels=[*_LABELS, label])
        for key, value in values.items():
            family.add_metric(["0", self._model, key], value)
        return family
