"""The reader of SGLang's page: names of two builds, ranks that say the same, ranks that are parts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport
from vicinal.engines.registry import SGLANG
from vicinal.engines.sglang.metrics import parse_report

UNHURRIED = settings(deadline=None)
"""A machine that is busy with other things is slow at times."""


E = EndpointId("e")
NEW = """\
# HELP sglang:num_queue_reqs The number of requests in the waiting queue
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 3.0
sglang:num_running_reqs{engine_type="unified",model_name="m",pp_rank="0",tp_rank="0"} 7.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.9
sglang:full_token_usage{model_name="m",tp_rank="0"} 0.25
sglang:page_size{model_name="m",tp_rank="0"} 16.0
sglang:num_pages{model_name="m",tp_rank="0"} 1000.0
sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 16000.0
sglang:cache_hit_rate{model_name="m",tp_rank="0"} 0.0
sglang:prompt_tokens_total{model_name="m"} 500.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 100.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 20.0
sglang:num_retracted_requests_total{model_name="m",tp_rank="0"} 2.0
sglang:num_retracted_requests_total{model_name="m",tp_rank="1"} 2.0
"""


def test_a_page() -> None:
    assert parse_report(NEW, E, 4.0) == EndpointReport(
        E, 4.0, waiting=3, running=7, kv_usage=0.25, kv_blocks=1000, block_tokens=16,
        prefix_queries_tokens=500.0, prefix_hits_tokens=120.0, preemptions=2.0,
    )  # fmt: skip


def test_older_builds_have_the_sizes_as_labels() -> None:
    page = 'sglang:cache_config_info{page_size="32",num_pages="50"} 1.0\nsglang:token_usage 0.5\n'
    report = parse_report(page, E, 0.0)
    assert (report.block_tokens, report.kv_blocks, report.kv_usage) == (32, 50, 0.5)


def test_pages_follow_from_tokens_where_nobody_counts_them() -> None:
    page = "sglang:page_size 16\nsglang:max_total_num_tokens 1000\n"
    assert parse_report(page, E, 0.0).kv_blocks == 62


def test_data_parallel_ranks_are_parts_and_tensor_ranks_say_the_same() -> None:
    page = "".join(
        f'sglang:num_running_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} {dp + 1}\n'
        f'sglang:num_queue_reqs{{dp_rank="{dp}",tp_rank="{tp}"}} 1\n'
        f'sglang:num_pages{{dp_rank="{dp}",tp_rank="{tp}"}} 10\n'
        f'sglang:token_usage{{dp_rank="{dp}",tp_rank="{tp}"}} {dp / 2}\n'
        for dp in range(2)
        for tp in range(2)
    )
    report = parse_report(page, E, 0.0)
    assert (report.running, report.waiting, report.kv_blocks, report.kv_usage) == (3, 2, 20, 0.25)


def test_requests_that_wait_for_their_partner_wait() -> None:
    page = "sglang:num_queue_reqs 1\nsglang:num_decode_prealloc_queue_reqs 4\n"
    assert parse_report(page, E, 0.0).waiting == 5
    assert parse_report("sglang:num_decode_prealloc_queue_reqs 4\n", E, 0.0).waiting is None


@pytest.mark.parametrize("page", ["", "sglang:num_queue_reqs NaN\n", "sglang:num_queue_reqs x\n", "vllm:num 3\n"])
def test_what_is_not_there_is_unknown(page: str) -> None:
    assert parse_report(page, E, 1.0) == EndpointReport(E, 1.0)


@UNHURRIED
@given(st.text(max_size=200) | st.lists(st.sampled_from(NEW.split("\n")), max_size=20).map("\n".join))
def test_no_page_raises(page: str) -> None:
    assert SGLANG.read_report(page, E, 1.0).endpoint == E
