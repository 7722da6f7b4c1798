"""Metrics of flow: holds, refusals by bound, tenants; labels are bounded, whatever clients send."""

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from vicinal.domain.decision import Observation
from vicinal.observe.flow_metrics import DETAILS_MAX, QueueGauge
from vicinal.observe.metrics import TENANTS_MAX, Metrics

MakeObservation = Callable[..., Observation]


def values(metrics: Metrics) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(metrics.expose().decode()):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            found[f"{sample.name.removeprefix('vicinal_')}{{{labels}}}"] = sample.value
    return found


@pytest.mark.mission("B4")
def test_holds_are_spread_by_band_and_lane(make_observation: MakeObservation) -> None:
    metrics = Metrics()
    for held_s in (0.0, 0.2, 3.0):
        metrics.observed(make_observation(band="batch", lane="long", held_s=held_s, tenant_id="a"))
    found = values(metrics)
    assert found["held_seconds_count{band=batch,lane=long}"] == 3
    assert found["held_seconds_sum{band=batch,lane=long}"] == pytest.approx(3.2)
    assert found["held_seconds_bucket{band=batch,lane=long,le=0.0}"] == 1
    assert found["held_seconds_bucket{band=batch,lane=long,le=0.25}"] == 2
    assert found["tenant_held_seconds_total{tenant=a}"] == pytest.approx(3.2)


@pytest.mark.mission("B6")
def test_tenants_have_their_requests_tokens_and_refusals(make_observation: MakeObservation) -> None:
    metrics = Metrics()
    metrics.observed(make_observation(tenant_id="a", prompt_tokens=1000, output_tokens=50))
    metrics.observed(make_observation(tenant_id="a", prompt_tokens=2000, output_tokens=None))
    metrics.observed(make_observation(tenant_id="a", ending="engine_failed", prompt_tokens=7, output_tokens=7))
    for detail in ("tokens_per_s", "tokens_per_s", "concurrency_max"):
        metrics.observed(
            make_observation(tenant_id="a", ending="quota_exceeded", detail=detail, prompt_tokens=9, output_tokens=None)
        )
    metrics.observed(make_observation(tenant_id="a", copy_to="d0", prompt_tokens=5))
    found = values(metrics)
    assert found["tenant_requests_total{tenant=a}"] == 6
    assert found["tenant_tokens_total{kind=prompt,tenant=a}"] == 3000
    assert found["tenant_tokens_total{kind=output,tenant=a}"] == 50
    assert found["tenant_refusals_total{ending=quota_exceeded,tenant=a}"] == 3
    assert found["refusals_total{detail=tokens_per_s,ending=quota_exceeded}"] == 2
    assert found["refusals_total{detail=concurrency_max,ending=quota_exceeded}"] == 1
    assert not any("engine_failed" in name and "refusals" in name for name in found)


@pytest.mark.mission("B6")
def test_neither_tenants_nor_details_make_series_without_end(make_observation: MakeObservation) -> None:
    metrics = Metrics()
    for number in range(3 * TENANTS_MAX):
        metrics.observed(make_observation(tenant_id=f"t{number}", ending="overloaded", detail=f"d{number}", held_s=1.0))
    found = values(metrics)
    for metric, most in (
        ("tenant_requests_total", TENANTS_MAX),
        ("tenant_held_seconds_total", TENANTS_MAX),
        ("tenant_refusals_total", TENANTS_MAX),
        ("refusals_total", DETAILS_MAX),
    ):
        assert len([name for name in found if name.startswith(metric + "{")]) == most + 1, metric
    assert found["tenant_requests_total{tenant=other}"] == 2 * TENANTS_MAX
    assert found["refusals_total{detail=other,ending=overloaded}"] == 3 * TENANTS_MAX - DETAILS_MAX


@pytest.mark.mission("B4")
def test_queues_are_read_when_they_are_asked_for() -> None:
    metrics, queues = Metrics(), [QueueGauge("batch", "short", 4, 2.5)]
    metrics.flow.follow(lambda: queues)
    found = values(metrics)
    assert found["held_requests{band=batch,lane=short}"] == 4
    assert found["held_oldest_seconds{band=batch,lane=short}"] == 2.5
    queues.clear()
    assert not any(name.startswith("held_requests") for name in values(metrics))
