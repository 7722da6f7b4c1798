"""Hand-offs: bodies against plain JSON editing, answers against recordings of a real vLLM, and attempts to mismatch."""

import copy
import inspect
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.endpoint import HandOff
from vicinal.engines import handover
from vicinal.engines.answers import Usage
from vicinal.engines.handover import NOWHERE, HandOver, PrefillLeg, Rendezvous, SpentHandOverError
from vicinal.engines.registry import DIALECTS
from vicinal.engines.sglang.hand_off import BOOTSTRAP
from vicinal.engines.vllm.hand_off import MOONCAKE, NIXL, read_engine_id

UNHURRIED = settings(deadline=None)
"""A machine that is busy with other things is slow at times."""

FIXTURES = Path(__file__).parent.parent / "fixtures" / "vllm-0.32-cpu"
RECORDED = json.loads((FIXTURES / "handoff_and_errors.json").read_text())
AT = Rendezvous("10.0.0.7", 8998, 2**63 - 1, "engine-1")
ASKED = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
edited_names = (
    "model prompt stream stream_options max_tokens max_completion_tokens min_tokens kv_transfer_params bootstrap_room"
)

names = st.sampled_from(edited_names.split()) | st.text(max_size=8)
bodies = st.dictionaries(names, values, max_size=9)
layouts = st.sampled_from([{}, {"indent": 1}, {"separators": (",", ":")}, {"ensure_ascii": False}])


def answer(finish: str | None = "length", params: Any = None, **more: Any) -> bytes:
    return json.dumps({"choices": [{"finish_reason": finish}], "kv_transfer_params": params, **more}).encode()


def nixl(body: bytes, params: bytes = b'{"a":1}', attempt: int = 1) -> HandOver:
    read = b'{"choices":[{"finish_reason":"length"}],"kv_transfer_params":' + params + b"}"
    made = PrefillLeg(NIXL, body, attempt, NOWHERE).answered(read).hand_over
    assert made is not None
    return made


def cut(body: dict[str, Any]) -> dict[str, Any]:
    edited = {k: v for k, v in body.items() if k not in ("stream_options", "min_tokens")}
    edited |= {"stream": False, "max_tokens": 1}
    if "max_completion_tokens" in edited:
        edited["max_completion_tokens"] = 1
    return edited


@UNHURRIED
@given(bodies, layouts)
def test_splicing_the_prefill_leg_equals_editing_the_decoded_body(body, layout) -> None:
    leg = PrefillLeg(NIXL, json.dumps(body, **layout).encode(), 1, NOWHERE)
    assert json.loads(leg.body) == cut(body) | {"kv_transfer_params": ASKED}
    assert (leg.hand_over, leg.concurrent) == (None, False)


@UNHURRIED
@given(bodies, st.dictionaries(st.text(), values, min_size=1, max_size=4), layouts, layouts)
def test_the_decode_leg_is_the_body_with_the_params_verbatim(body, params, layout, params_layout) -> None:
    params.pop("remote_prefill_cached_tokens", None)
    raw = json.dumps(params, **params_layout).encode()
    spliced = nixl(json.dumps(body, **layout).encode(), raw).take(1)
    assert json.loads(spliced) == body | {"kv_transfer_params": params}
    assert b'"kv_transfer_params":' + raw in spliced


@UNHURRIED
@given(bodies, layouts)
def test_both_legs_of_a_mooncake_hand_off_name_one_transfer(body, layout) -> None:
    leg = PrefillLeg(MOONCAKE, json.dumps(body, **layout).encode(), 1, AT)
    pushed = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "xfer-7fffffffffffffff"}
    assert json.loads(leg.body) == cut(body) | {"kv_transfer_params": pushed}
    assert leg.hand_over is not None
    assert json.loads(leg.hand_over.take(1)) == body | {
        "kv_transfer_params": {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_engine_id": "engine-1",
            "remote_bootstrap_addr": "http://10.0.0.7:8998",
            "transfer_id": "xfer-7fffffffffffffff",
        }
    }


@UNHURRIED
@given(bodies, layouts)
def test_both_legs_of_a_bootstrap_hand_off_meet_in_one_room(body, layout) -> None:
    leg = PrefillLeg(BOOTSTRAP, json.dumps(body, **layout).encode(), 1, AT)
    room = {"bootstrap_host": "10.0.0.7", "bootstrap_port": 8998, "bootstrap_room": 2**63 - 1}
    whole = {k: v for k, v in body.items() if k != "stream_options"}
    assert json.loads(leg.body) == whole | {"stream": False} | room
    assert leg.hand_over is not None
    assert json.loads(leg.hand_over.take(1)) == body | room


def test_a_decode_engine_is_told_of_the_rank_that_prefills() -> None:
    at = Rendezvous("h", 1, 2, prefill_rank=3)
    leg = PrefillLeg(BOOTSTRAP, b"{}", 1, at)
    assert "disagg_prefill_dp_rank" not in json.loads(leg.body)
    assert leg.hand_over is not None
    assert json.loads(leg.hand_over.take(1))["disagg_prefill_dp_rank"] == 3


@UNHURRIED
@given(st.text(max_size=50))
def test_the_prompt_keeps_its_bytes(text) -> None:
    prompt = json.dumps(text, ensure_ascii=True).encode()
    body = b'{ "model" : "m", "prompt" : ' + prompt + b' , "max_tokens" : 7 }'
    assert prompt in PrefillLeg(NIXL, body, 1, NOWHERE).body
    assert prompt in nixl(body).take(1)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"a":}', b"7"])
def test_what_is_no_object_is_refused(body) -> None:
    with pytest.raises(ValueError):
        PrefillLeg(NIXL, body, 1, NOWHERE)


@pytest.mark.mission("B11")
def test_a_recorded_prefill_answer() -> None:
    recorded = RECORDED["pd"]["prefill_response"]
    read = PrefillLeg(NIXL, b'{"prompt":"x"}', 1, NOWHERE).answered(json.dumps(recorded).encode())
    assert read.hand_over is not None
    assert json.loads(read.hand_over.take(1))["kv_transfer_params"] == recorded["kv_transfer_params"]
    assert read.usage == Usage(400, 1, 384)


@pytest.mark.mission("B11")
def test_reuse_comes_from_the_params_where_usage_has_no_details() -> None:
    recorded = json.loads(json.dumps(RECORDED["pd"]["prefill_response"]))
    recorded["usage"]["prompt_tokens_details"] = None
    read = PrefillLeg(NIXL, b"{}", 1, NOWHERE).answered(json.dumps(recorded).encode())
    assert read.usage.cached_tokens == 384


@pytest.mark.parametrize(
    ("way", "finish", "params", "handed_over", "ended"),
    [
        (NIXL, "length", {"x": 1}, True, False),
        (NIXL, "stop", {"x": 1}, False, True),
        (NIXL, "length", None, False, False),
        (NIXL, "stop", None, False, True),
        (MOONCAKE, "length", None, False, False),
        (MOONCAKE, "stop", None, False, True),
        (BOOTSTRAP, "length", None, False, False),
        (BOOTSTRAP, "stop", None, False, False),
    ],
)
def test_what_an_answer_leaves(way, finish, params, handed_over, ended) -> None:
    read = PrefillLeg(way, b"{}", 1, AT).answered(answer(finish, params))
    assert ((read.hand_over is not None), read.ended) == (handed_over, ended)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"choices":[]}', b"<html>", b'{"choices":3}', b"[" * 5000])
def test_an_unreadable_prefill_answer_is_an_error(body) -> None:
    with pytest.raises(ValueError):
        PrefillLeg(NIXL, b"{}", 1, NOWHERE).answered(body)


def test_an_engines_id_is_that_of_its_rank() -> None:
    told = b'{"0":{"engine_id":"e_dp0","worker_addr":{}},"1":{"engine_id":"e_dp1"}}'
    assert (read_engine_id(told, None), read_engine_id(told, 1)) == ("e_dp0", "e_dp1")
    for bad in (b"", b"[]", b'{"1":{"engine_id":"x"}}', b'{"0":{}}'):
        with pytest.raises(ValueError, match="rank 0"):
            read_engine_id(bad, None)


# Attempts to give an engine the KV of one prompt and the words of another. A real engine exits of it.


@pytest.mark.mission("B11")
def test_a_hand_over_is_used_once() -> None:
    for leg in (nixl(b'{"prompt":"a"}'), PrefillLeg(BOOTSTRAP, b'{"prompt":"a"}', 1, AT).hand_over):
        assert leg is not None
        leg.take(1)
        with pytest.raises(SpentHandOverError):
            leg.take(1)
        assert not leg.fits(1)


@pytest.mark.mission("B11")
def test_a_retry_cannot_use_what_an_earlier_attempt_left() -> None:
    left = nixl(b'{"prompt":"a"}', attempt=1)
    assert not left.fits(2)
    with pytest.raises(SpentHandOverError):
        left.take(2)
    assert left.fits(1), "the attempt that it belongs to may still use it"


@pytest.mark.mission("B11")
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_hand_over_cannot_be_copied(duplicate) -> None:
    with pytest.raises(TypeError, match="used once"):
        duplicate(nixl(b'{"prompt":"a"}'))


@pytest.mark.mission("B11")
@UNHURRIED
@given(st.lists(st.text(max_size=9), min_size=2, max_size=5, unique=True), st.data())
def test_whatever_answer_comes_to_a_leg_its_decode_leg_has_the_prompt_that_it_sent(prompts, data) -> None:
    """Answers may even be mixed up between legs: each decode leg keeps the words of its own prefill leg."""
    legs = [PrefillLeg(NIXL, json.dumps({"prompt": text}).encode(), 1, NOWHERE) for text in prompts]
    order = data.draw(st.permutations(range(len(legs))))
    for leg, text, other in zip(legs, prompts, order, strict=True):
        left = leg.answered(answer(params={"remote_request_id": str(other)})).hand_over
        assert left is not None
        assert json.loads(leg.body)["prompt"] == json.loads(left.take(1))["prompt"] == text


@pytest.mark.mission("B11")
def test_nothing_public_joins_params_and_a_body_from_outside() -> None:
    """A body goes in where a prefill leg is made, and nowhere else; the decode leg comes out of its hand-over."""
    assert list(inspect.signature(HandOver.take).parameters) == ["self", "attempt"]
    assert list(inspect.signature(PrefillLeg.answered).parameters) == ["self", "answer"]
    functions = {name for name, each in vars(handover).items() if inspect.isfunction(each) and name[0] != "_"}
    assert {name for name in functions if vars(handover)[name].__module__ == handover.__name__} == {"usage_told"}
    assert {way.kind for speaks in DIALECTS.values() for way in speaks.ways.values()} == set(HandOff)
    for speaks in DIALECTS.values():
        for way in speaks.ways.values():
            for function in (way.prefill, way.decode):
                assert function is None or len(inspect.signature(function).parameters) == 1, "no body goes in"
