"""The emulator's metrics carry vLLM's names and labels, and their figures are right."""

from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

FIXTURES = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu"
READ_BY_SCHEDULERS = {
    "vllm:num_requests_waiting",
    "vllm:num_requests_running",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:num_preemptions",
    "vllm:admission_rejections",
    "vllm:num_requests_waiting_by_reason",
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
    "vllm:prompt_tokens_by_source",
    "vllm:nixl_bytes_transferred",
}


def families(text: str) -> dict[str, Any]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def bounds(family: Any) -> list[str]:
    return [s.labels["le"] for s in family.samples if "le" in s.labels]


async def scrape(rig: Any, name: str) -> dict[str, Any]:
    async with rig.http.get(rig.url(name, "/metrics")) as answer:
        assert answer.content_type == "text/plain"
        return families(await answer.text())


@pytest.mark.mission("B10")
async def test_names_types_labels_and_buckets_are_those_recorded(rig: Any) -> None:
    await rig.complete("p", list(range(5, 105)))
    ours = await scrape(rig, "p")
    recorded = families((FIXTURES / "metrics_prefill.txt").read_text())
    assert READ_BY_SCHEDULERS <= ours.keys() <= recorded.keys()
    for name, family in ours.items():
        assert family.type == recorded[name].type, name
        labels = {frozenset(s.labels) for s in family.samples}
        assert labels <= {frozenset(s.labels) for s in recorded[name].samples} or name == "vllm:cache_config_info"
        assert [float(b) for b in bounds(family)] == [float(b) for b in bounds(recorded[name])], name
    assert (
        ours["vllm:cache_config_info"].samples[0].labels.items()
        >= {"block_size": "16", "num_gpu_blocks": "2000"}.items()
    )
    assert set(ours["vllm:cache_config_info"].samples[0].labels) <= set(
        recorded["vllm:cache_config_info"].samples[0].labels
    )


async def test_figures(rig: Any) -> None:
    prompt = list(range(5, 505))
    await rig.complete("d1", prompt[:160], 3)
    params = await rig.prefill("p", prompt)
    await rig.complete("d1", prompt, 3, kv_transfer_params=params)
    metrics = await scrape(rig, "d1")

    def value(name: str, **labels: str) -> float:
        family = metrics[name.removesuffix("_total").removesuffix("_count").removesuffix("_sum")]
        (found,) = (s.value for s in family.samples if s.name == name and s.labels.items() >= labels.items())
        return float(found)

    sources = [
        value("vllm:prompt_tokens_by_source_total", source=s)
        for s in ("local_compute", "local_cache_hit", "external_kv_transfer")
    ]
    assert sources == [160, 160, 340]
    assert value("vllm:prefix_cache_queries_total") == 660
    assert value("vllm:prefix_cache_hits_total") == 160
    assert value("vllm:generation_tokens_total") == 6
    assert value("vllm:request_success_total", finished_reason="length") == 2
    assert value("vllm:inter_token_latency_seconds_count") == 4
    assert value("vllm:time_to_first_token_seconds_count") == 2
    assert value("vllm:nixl_bytes_transferred_sum") == 22 * 16 * 327_680
    assert value("vllm:num_requests_running") == value("vllm:kv_cache_usage_perc") == 0
