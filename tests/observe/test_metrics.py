"""Prometheus metrics: values, bounded labels, and that docs/metrics.md lists exactly what is exposed."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vicinal.domain.decision import Decision, Observation, PricedPlan
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.plan import Action, Leg
from vicinal.domain.report import EndpointReport
from vicinal.domain.reuse import Reuse
from vicinal.domain.verdict import Verdict
from vicinal.observe.metrics import TENANTS_MAX, Metrics

DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
SEED_NAMES = [
    "scheduler_qps",
    "scheduler_latency",
    "scheduler_queue_length",
    "worker_queue_length",
    "gpu_utilization",
    "gpu_hbm_used_bytes",
    "batch_size",
    "batch_wait_time",
    "request_ttft",
    "request_tpot",
    "p99_decode_latency",
    "cache_local_hit_rate",
    "remote_cache_read_count",
    "cache_migration_triggered_by_schedule",
    "schedule_reject_count",
    "worker_assignment_failure_count",
]
P0 = EndpointId("p0")


def endpoint(name: str) -> Endpoint:
    return Endpoint(
        id=EndpointId(name),
        url="http://127.0.0.1:1",
        role=Role.PREFILL,
        model=ModelId("m"),
        profile="x",
        kv_blocks=100,
        block_tokens=16,
        kv_bytes_per_token=1000,
        model_tokens_max=1000,
        nic_bytes_per_s=1.0,
    )


def values(metrics: Metrics) -> dict[str, float]:
    """Every sample of the page, as `name{label=value,...}` -> value."""
    found = {}
    for family in text_string_to_metric_families(metrics.expose().decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


@pytest.mark.mission("B15")
def test_the_documentation_names_exactly_what_is_exposed() -> None:
    text = DOCS.read_text()
    exposed = set()
    for metric in Metrics().registry.collect():
        exposed.add(f"{metric.name}_total" if metric.type == "counter" else metric.name)
    documented = set(re.findall(r"`(vicinal_\w+)`", text))
    wiring = "".join(path.read_text() for path in sorted((DOCS.parents[1] / "src" / "vicinal" / "wiring").glob("*.py")))
    counted = {f"vicinal_{name}_total" for name in re.findall(r'metrics\.count\(\s*"(\w+)"', wiring)}
    assert {"vicinal_gateway_events_total", "vicinal_kv_event_oddities_total"} <= counted
    read = {f"vicinal_{name}" for name in re.findall(r'metrics\.gauge\(\s*"(\w+)"', wiring)}
    assert "vicinal_pressure_level" in read
    assert documented == exposed | counted | read
    table = dict(re.findall(r"^\| (\w+) \| `(vicinal_\w+)` \|", text, re.MULTILINE))
    assert list(table) == SEED_NAMES


def test_a_decision_is_counted_timed_and_explained(
    make_decision: Callable[..., Decision],
    make_priced: Callable[..., PricedPlan],
    make_verdict: Callable[[int], Verdict],
) -> None:
    metrics = Metrics()
    metrics.decided(make_decision(verdicts=(make_verdict(0), make_verdict(1)), queue_length=7), 0.0003)
    metrics.decided(make_decision(chosen=make_priced(action=Action.MIGRATE)), 0.0001)
    metrics.decided(make_decision(chosen=make_priced(action=Action.REMOTE_READ), leg=Leg.DECODE))
    found = values(metrics)
    assert found["vicinal_scheduler_decisions_total{action=hit,leg=whole,policy=cost}"] == 1
    assert found["vicinal_scheduler_decisions_total{action=migrate,leg=whole,policy=cost}"] == 1
    assert found["vicinal_scheduler_latency_seconds_count"] == 2
    assert found["vicinal_scheduler_latency_seconds_sum"] == pytest.approx(0.0004)
    assert found["vicinal_scheduler_wait_seconds_count"] == 2
    assert found["vicinal_scheduler_queue_length"] == 3
    assert found["vicinal_batch_wait_time_seconds_count"] == 1
    assert found["vicinal_batch_wait_time_seconds_sum"] == pytest.approx(0.031)
    assert found["vicinal_cache_migrations_triggered_by_schedule_total"] == 1
    assert found["vicinal_remote_cache_reads_total"] == 1
    assert found["vicinal_verdicts_total{rule=headroom}"] == 2
    metrics.queued(9)
    assert values(metrics)["vicinal_scheduler_queue_length"] == 9


def test_tenants_beyond_the_cap_share_a_label(make_decision: Callable[..., Decision]) -> None:
    metrics = Metrics()
    for number in [*range(TENANTS_MAX + 20), 0]:
        metrics.decided(make_decision(tenant_id=f"tenant-{number}"))
    tenants = {k: v for k, v in values(metrics).items() if k.startswith("vicinal_tenant_decisions_total{")}
    assert len(tenants) == TENANTS_MAX + 1
    assert tenants["vicinal_tenant_decisions_total{tenant=other}"] == 20
    assert tenants["vicinal_tenant_decisions_total{tenant=tenant-0}"] == 2


def test_an_observation_fills_latencies_errors_and_reuse(make_observation: Callable[..., Observation]) -> None:
    metrics = Metrics()
    metrics.observed(make_observation())
    metrics.observed(make_observation(ttft_s=None, tpot_s=None, attempts=2, cached_tokens=None))
    found = values(metrics)
    assert found["vicinal_requests_total{ending=done}"] == 2
    assert found["vicinal_request_ttft_seconds_count"] == 1
    assert found["vicinal_request_tpot_seconds_sum"] == pytest.approx(0.02)
    assert found["vicinal_decode_latency_seconds_sum"] == pytest.approx(2.5 - 0.08)
    assert found["vicinal_prediction_error_seconds_sum{figure=ttft}"] == pytest.approx(0.019)
    assert found["vicinal_prediction_error_seconds_count{figure=prefill}"] == 2
    assert found["vicinal_cache_observed_tokens_total"] == 8192
    assert found["vicinal_cache_predicted_tokens_total"] == 8192
    assert found["vicinal_worker_assignment_failures_total"] == 1


def test_refusals_and_failures_are_told_apart(make_observation: Callable[..., Observation]) -> None:
    metrics = Metrics()
    refused = {"ttft_s": None, "tpot_s": None}
    metrics.observed(make_observation(ending="waited_too_long", attempts=0, **refused))
    metrics.observed(make_observation(ending="engine_failed", attempts=3, **refused))
    metrics.observed(make_observation(ending="cancelled", attempts=1, **refused))
    metrics.observed(make_observation(ending="queue_full", attempts=0, **refused))
    metrics.count("gateway_events", "What the data path met", lambda: {"refused": 7})
    found = values(metrics)
    rejects = {k: v for k, v in found.items() if k.startswith("vicinal_schedule_rejects_total{")}
    assert rejects == {
        "vicinal_schedule_rejects_total{ending=waited_too_long}": 1,
        "vicinal_schedule_rejects_total{ending=queue_full}": 1,
    }
    assert found["vicinal_worker_assignment_failures_total"] == 3
    assert found["vicinal_requests_total{ending=cancelled}"] == 1
    assert found["vicinal_gateway_events_total{kind=refused}"] == 7


def test_reports_become_gauges_and_unknown_has_no_series() -> None:
    metrics = Metrics([endpoint("p0"), endpoint("p1")])
    metrics.reported(
        EndpointReport(
            P0,
            1.0,
            waiting=4,
            running=2,
            kv_usage=0.25,
            kv_blocks=200,
            prefix_queries_tokens=100.0,
            prefix_hits_tokens=75.0,
        )
    )
    metrics.reported(EndpointReport(EndpointId("p1"), 1.0, kv_usage=0.5, prefix_queries_tokens=0.0))
    found = values(metrics)
    assert found["vicinal_worker_queue_length{endpoint=p0}"] == 4
    assert found["vicinal_batch_size{endpoint=p0}"] == 2
    assert found["vicinal_gpu_kv_usage_ratio{endpoint=p0}"] == 0.25
    assert found["vicinal_gpu_hbm_used_bytes{endpoint=p0}"] == 0.25 * 200 * 16 * 1000
    assert found["vicinal_gpu_hbm_used_bytes{endpoint=p1}"] == 0.5 * 100 * 16 * 1000
    assert found["vicinal_cache_local_hit_ratio{endpoint=p0}"] == 0.75
    assert not any(
        key.startswith(("vicinal_gpu_utilization_ratio{", "vicinal_batch_size{endpoint=p1")) for key in found
    )
    assert "vicinal_cache_local_hit_ratio{endpoint=p1}" not in found
    metrics.reported(EndpointReport(P0, 2.0, waiting=None, gpu_utilization=0.9))
    found = values(metrics)
    assert "vicinal_worker_queue_length{endpoint=p0}" not in found
    assert found["vicinal_gpu_utilization_ratio{endpoint=p0}"] == 0.9


def test_an_endpoint_that_leaves_takes_its_series_along() -> None:
    metrics = Metrics([endpoint("p0"), endpoint("p1")])
    for name in ("p0", "p1"):
        metrics.reported(EndpointReport(EndpointId(name), 1.0, waiting=1))
        metrics.follow(EndpointId(name), "kv_events", {"gaps": 1})
    metrics.fleet([endpoint("p1")])
    left = [key for key in values(metrics) if "endpoint=" in key]
    assert left
    assert all("endpoint=p1" in key for key in left)


def test_feed_counts_are_read_when_the_page_is_asked_for() -> None:
    metrics = Metrics()
    counts: Counter[str] = Counter(gaps=1)
    metrics.follow(P0, "kv_events", counts)
    counts["gaps"] += 2
    counts["restarts"] += 1
    metrics.warned(Warn("block_size", None, "text"))
    found = values(metrics)
    assert found["vicinal_feed_events_total{endpoint=p0,feed=kv_events,kind=gaps}"] == 3
    assert found["vicinal_feed_events_total{endpoint=p0,feed=kv_events,kind=restarts}"] == 1
    assert found["vicinal_warnings_total{kind=block_size}"] == 1


def test_two_schedulers_in_one_process_do_not_share_counts(make_decision: Callable[..., Decision]) -> None:
    one, other = Metrics(), Metrics()
    one.decided(make_decision())
    assert values(one)["vicinal_tenant_decisions_total{tenant=t}"] == 1
    assert "vicinal_tenant_decisions_total{tenant=t}" not in values(other)


@pytest.mark.mission("B15", "B16")
def test_predictions_of_reuse_by_endpoint_and_cause(make_observation: Callable[..., Observation]) -> None:
    metrics = Metrics([endpoint("p0")])
    checked = {"prefill": P0, "predicted_cached_tokens": 160}
    for cached, reuse in ((160, Reuse.EXACT), (96, Reuse.EVICTED_MEANWHILE), (None, Reuse.ENGINE_SILENT)):
        metrics.observed(make_observation(cached_tokens=cached, reuse=reuse, **checked))
    metrics.observed(make_observation(reuse=Reuse.EXACT, prefill=EndpointId("left")))
    metrics.observed(make_observation(reuse=None, **checked))
    found = values(metrics)
    assert found["vicinal_prefix_prediction_error_count"] == 2
    assert found["vicinal_prefix_prediction_error_sum"] == 64
    checks = {k: v for k, v in found.items() if k.startswith("vicinal_prefix_checks_total{")}
    assert checks == {
        f"vicinal_prefix_checks_total{{cause={cause},endpoint=p0}}": 1
        for cause in ("exact", "evicted_meanwhile", "engine_silent")
    }
    assert found["vicinal_prefix_error_tokens_total{cause=evicted_meanwhile,endpoint=p0}"] == 64
    metrics.fleet([])
    assert not any("endpoint=p0" in name for name in values(metrics))


@pytest.mark.mission("A7", "B15")
def test_what_decode_legs_were_promised_beside_what_the_engine_pulled(
    make_decision: Callable[..., Decision], make_priced: Callable[..., PricedPlan]
) -> None:
    metrics = Metrics([endpoint("d0")])
    metrics.decided(make_decision(chosen=make_priced(moved=176), leg=Leg.PREFILL))
    metrics.decided(make_decision(chosen=make_priced(moved=176), leg=Leg.DECODE))
    metrics.reported(EndpointReport(EndpointId("d0"), 1.0, prompt_pulled_tokens=176.0, prompt_reused_tokens=384.0))
    found = values(metrics)
    assert found["vicinal_handoff_promised_tokens_total{endpoint=d0,kind=moved}"] == 176
    assert found["vicinal_engine_prompt_tokens{endpoint=d0,source=pulled}"] == 176
    assert found["vicinal_engine_prompt_tokens{endpoint=d0,source=reused}"] == 384
    assert "vicinal_engine_prompt_tokens{endpoint=d0,source=computed}" not in found
