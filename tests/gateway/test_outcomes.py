"""What a machine reads of an answer that is an error: status, code, reason, when to come back. On real sockets."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.effects import Answer
from vicinal.domain.events import RequestArrived
from vicinal.domain.outcome import DETAIL_CHARS_MAX, Ending, Outcome
from vicinal.gateway.errors import outcome_headers
from vicinal.gateway.keys import KeyRing

BODY = {"model": "m", "prompt": [1, 2, 3, 4, 5], "max_tokens": 9}
ANSWERED = [ending for ending in Ending if ending.answered_by_core]


def ends(world, outcome: Outcome) -> None:
    world.scheduler.on(RequestArrived, lambda e: [Answer(e.request.id, outcome)])


@pytest.mark.mission("B7")
@pytest.mark.parametrize("ending", ANSWERED)
async def test_every_ending_is_an_answer_with_its_status_and_reason(world, kit, ending) -> None:
    ends(world, Outcome(ending, "so", 3.01, "which"))
    await world.start()
    response = await world.ask(BODY)
    assert (response.status, response.error["code"]) == (ending.http_status, ending.value)
    assert response.error["message"] == "so"
    assert response.headers["x-vicinal-reason"] == f"{ending}:which"
    assert response.headers.get("retry-after") == ("4" if ending.retryable else None)


@pytest.mark.mission("B7")
@pytest.mark.parametrize(("said_s", "whole_s"), [(None, "1"), (0.0, "1"), (0.2, "1"), (1.0, "1"), (1.001, "2")])
async def test_nobody_is_told_to_come_back_at_once(world, kit, said_s, whole_s) -> None:
    ends(world, Outcome(Ending.OVERLOADED, retry_after_s=said_s))
    await world.start()
    response = await world.ask(BODY)
    assert response.headers["retry-after"] == whole_s
    assert response.headers["x-vicinal-reason"] == "overloaded"
    assert response.error["message"] == Ending.OVERLOADED.meaning.text


@given(st.sampled_from(Ending), st.text(), st.none() | st.floats(0.0, 1e6))
def test_whatever_the_detail_is_the_headers_are_two_short_lines(ending, detail, again_s) -> None:
    lines = outcome_headers(Outcome(ending, "", again_s, detail)).split(b"\r\n")
    assert lines.pop() == b""
    found = re.fullmatch(rb"X-Vicinal-Reason: ([a-z_]+)(:[A-Za-z0-9._:/-]{1,%d})?" % DETAIL_CHARS_MAX, lines.pop(0))
    assert found is not None
    assert found[1].decode() == ending
    assert (found[2] is None) == (not detail)
    assert [bool(re.fullmatch(rb"Retry-After: [1-9]\d*", line)) for line in lines] == [True] * ending.retryable


@pytest.mark.parametrize(
    ("sent", "path", "status", "code"),
    [
        (BODY, "/v1/nowhere", 404, "unknown_path"),
        (BODY, "/v1/models", 405, "method_not_allowed"),
        (b"{", "/v1/completions", 400, "invalid_json"),
        (BODY | {"max_tokens": 0}, "/v1/completions", 400, "invalid_request"),
        (BODY | {"prompt": [1] * 1000}, "/v1/completions", 400, "context_length_exceeded"),
        (BODY | {"model": "x"}, "/v1/completions", 404, "model_not_found"),
    ],
)
async def test_what_a_route_refuses_has_its_code_in_body_and_header(world, kit, sent, path, status, code) -> None:
    await world.start()
    response = await world.ask(sent, path)
    assert (response.status, response.error["code"], response.headers["x-vicinal-reason"]) == (status, code, code)
    assert "retry-after" not in response.headers


async def test_without_a_key_the_answer_says_how_to_show_one(world, kit) -> None:
    await world.start(keys=KeyRing([]))
    response = await world.ask(BODY)
    assert (response.status, response.headers["x-vicinal-reason"]) == (401, "invalid_api_key")
    assert response.headers["www-authenticate"] == "Bearer"


async def refuses(seen: Any, reply: Any) -> None:
    await reply.json({"error": {"message": "top_k must be -1", "code": 400}}, status=400)


async def test_what_an_engine_finds_wrong_goes_through_and_says_whose_word_it_is(world, kit) -> None:
    engine = await world.engine("d", refuses)
    kit.goes_whole(world.scheduler)
    await world.start()
    response = await world.ask(BODY)
    assert len(engine.seen) == 1
    assert (response.status, response.error["message"]) == (400, "top_k must be -1")
    assert response.headers["x-vicinal-reason"] == "rejected"
