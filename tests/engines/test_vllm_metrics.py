"""The reader of vLLM metrics pages, on recorded pages and on pages of several engines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport
from vicinal.engines.vllm.metrics import parse_report

RECORDINGS = Path(__file__).parents[1] / "fixtures" / "vllm-0.32-cpu"
ENGINE = EndpointId("p0")


def test_the_recorded_prefill_page() -> None:
    page = (RECORDINGS / "metrics_prefill.txt").read_text()
    assert parse_report(page, ENGINE, 4.5) == EndpointReport(
        endpoint=ENGINE,
        scraped_s=4.5,
        waiting=0,
        running=0,
        kv_usage=0.003913894324853229,
        gpu_utilization=None,
        kv_blocks=512,
        block_tokens=32,
        prefix_queries_tokens=5128.0,
        prefix_hits_tokens=3584.0,
        preemptions=0.0,
        prompt_computed_tokens=1544.0,
        prompt_reused_tokens=3584.0,
        prompt_pulled_tokens=0.0,
    )


def test_the_recorded_decode_page_agrees_with_its_text() -> None:
    page = (RECORDINGS / "metrics_decode.txt").read_text()
    report = parse_report(page, ENGINE, 0.0)
    lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    label = '{engine="0",model_name="tiny"}'
    assert report.prefix_queries_tokens == float(lines[f"vllm:prefix_cache_queries_total{label}"])
    assert report.prefix_hits_tokens == float(lines[f"vllm:prefix_cache_hits_total{label}"])
    for figure, source in (
        (report.prompt_computed_tokens, "local_compute"),
        (report.prompt_reused_tokens, "local_cache_hit"),
        (report.prompt_pulled_tokens, "external_kv_transfer"),
    ):
        name = "vllm:prompt_tokens_by_source_total"
        assert figure == float(lines[f'{name}{{engine="0",model_name="tiny",source="{source}"}}'])
    assert report.kv_usage == float(lines[f"vllm:kv_cache_usage_perc{label}"])
    assert report.kv_blocks == 512


def test_engines_of_one_endpoint_are_summed() -> None:
    page = """\
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 99.0
vllm:num_requests_running{engine="0"} 1
vllm:num_requests_running{engine="1"} 1 1700000000000
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.1
vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100",x="a\\"}b"} 1.0
vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="300"} 1.0
vllm:num_preemptions_total{engine="0"} 2.0
vllm:num_preemptions_total{engine="1"} 1.0
"""
    report = parse_report(page, ENGINE, 0.0)
    assert (report.waiting, report.running, report.preemptions) == (7, 2, 3.0)
    assert (report.kv_blocks, report.block_tokens) == (400, 16)
    assert report.kv_usage == pytest.approx(0.2)
    assert report.kv_usage is not None
    assert report.kv_blocks is not None
    assert report.kv_usage * report.kv_blocks == pytest.approx(0.5 * 100 + 0.1 * 300)


def test_sizes_that_are_not_known_weigh_alike() -> None:
    page = 'vllm:kv_cache_usage_perc{engine="0"} 0.5\nvllm:kv_cache_usage_perc{engine="1"} 0.1\n'
    assert parse_report(page, ENGINE, 0.0).kv_usage == pytest.approx(0.3)


def test_older_names_count_only_where_the_newer_are_missing() -> None:
    old = "vllm:gpu_cache_usage_perc 0.25\n"
    assert parse_report(old, ENGINE, 0.0).kv_usage == 0.25
    assert parse_report(old + "vllm:kv_cache_usage_perc 0.5\n", ENGINE, 0.0).kv_usage == 0.5


def test_what_is_missing_or_no_number_is_unknown() -> None:
    assert parse_report("", ENGINE, 1.0) == EndpointReport(ENGINE, 1.0)
    page = (
        "vllm:num_requests_waiting NaN\nvllm:num_requests_running +Inf\nvllm:num_preemptions_total x\n"
        'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="None"} 1.0\n'
        'vllm:cache_config_info{block_size="32",engine="1",num_gpu_blocks="8"} 1.0\n'
    )
    assert parse_report(page, ENGINE, 1.0) == EndpointReport(ENGINE, 1.0)


@given(st.text(alphabet='vllm:num_requests_waiting{}" \n0.9NaInf', max_size=80))
def test_no_page_raises(text: str) -> None:
    for page in (text, f"vllm:num_requests_waiting{text}", f"vllm:kv_cache_usage_perc {text}"):
        assert parse_report(page, ENGINE, 0.0).endpoint == ENGINE
