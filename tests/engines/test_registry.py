"""Dialects by name: what they can do is what they have."""

import pytest

from vicinal.domain.capabilities import CAPABILITIES
from vicinal.domain.endpoint import Endpoint, HandOff, Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.domain.report import EndpointReport
from vicinal.engines.dialect import rank_header, way_of
from vicinal.engines.registry import DIALECTS, OPENAI, SGLANG, VLLM, UnknownDialectError, dialect

E = EndpointId("e")


def endpoint(**changes: object) -> Endpoint:
    fields: dict[str, object] = {"role": Role.BOTH, **changes}
    return Endpoint(E, "http://h:1", model=ModelId("m"), profile="p", kv_blocks=1, block_tokens=1,
                    kv_bytes_per_token=1, model_tokens_max=1, nic_bytes_per_s=1.0, **fields)  # type: ignore[arg-type]  # fmt: skip


def test_every_dialect_has_what_it_says_it_can() -> None:
    assert set(DIALECTS) == set(CAPABILITIES)
    for name, speaks in DIALECTS.items():
        assert (speaks.name, speaks.can) == (name, CAPABILITIES[name])
        assert tuple(speaks.ways) == speaks.can.hand_offs
        assert (speaks.decode_batch is not None) == speaks.can.events
        assert (speaks.sign_path == "/metrics") == speaks.can.metrics


def test_an_unknown_dialect_is_told_the_nearest() -> None:
    with pytest.raises(UnknownDialectError, match="Did you mean 'sglang'"):
        dialect("sgl")


def test_a_server_without_a_page_is_alive_and_says_nothing_of_its_load() -> None:
    report = OPENAI.read_report('{"data":[]}', E, 7.0)
    assert report == EndpointReport(E, 7.0)
    assert report.waiting is None, "unknown, not idle"
    assert [status for status in (200, 401, 404, 500, 502, 503) if OPENAI.answers_alive(status)] == [200, 401, 404]
    assert not VLLM.answers_alive(404)


def test_how_an_endpoint_hands_off() -> None:
    assert way_of(VLLM, endpoint()) is VLLM.ways[HandOff.NIXL]
    assert way_of(VLLM, endpoint(hand_off=HandOff.MOONCAKE)) is VLLM.ways[HandOff.MOONCAKE]
    assert way_of(VLLM, endpoint(hands_off=False)) is None
    assert way_of(SGLANG, endpoint()) is None, "it does not know NIXL"


def test_a_rank_reads_its_own_series_and_names_itself() -> None:
    page = (
        'vllm:num_requests_waiting{engine="0",model_name="m"} 3.0\n'
        'vllm:num_requests_waiting{engine="1",model_name="m"} 5.0\n'
        'vllm:num_requests_running{engine="0",model_name="m"} 1.0\n'
        'vllm:num_requests_running{engine="10",model_name="m"} 8.0\n'
        'vllm:num_requests_running{engine="1",model_name="m"} 2.0\n'
    )
    second = endpoint(data_parallel_rank=1)
    report = VLLM.report_of(second)(page, E, 0.0)
    assert (report.waiting, report.running) == (5, 2)
    assert VLLM.report_of(endpoint())(page, E, 0.0).waiting == 8
    assert rank_header(second) == b"X-data-parallel-rank: 1\r\n"
    assert rank_header(endpoint()) == b""
