"""Engines' counts of prompt tokens beside ours: in every answer of every kind of leg, and only where we tokenised."""

import json

import pytest

from tests.gateway.test_exchange import answers, streams
from vicinal.domain.events import RequestFinished
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.prompts import pack

OURS = 4


class Words:
    """A token per word."""

    def packed(self, text: str, *, add_special_tokens: bool = True) -> bytes:
        return pack(list(range(len(text.split()))))


MODELS = (ServedModel("m", 4, 1000, Words()),)
TEXT = {"model": "m", "prompt": "one two three four", "max_tokens": 9}


def usage(prompt_tokens: int | None) -> dict:
    return {"prompt_tokens": prompt_tokens, "completion_tokens": 2}


def prefill_answer(kit, prompt_tokens: int | None) -> bytes:
    body = json.loads(kit.prefill_answer())
    body["usage"] = usage(prompt_tokens)
    return json.dumps(body).encode()


@pytest.mark.mission("B16")
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("counted", "differ"), [(OURS, 0), (OURS + 1, 1), (None, 0)])
async def test_a_count_other_than_ours_is_counted_and_told(world, kit, streamed, counted, differ) -> None:
    whole = {"choices": [{"text": "Hi"}], "usage": usage(counted)}
    await world.engine("d", streams(kit.text_event("Hi"), usage=usage(counted)) if streamed else answers(whole))
    kit.goes_whole(world.scheduler)
    await world.start(models=MODELS)
    told = []
    world.gateway.relay.prompt_counts.drifted = lambda: told.append(1)
    await world.ask(TEXT | ({"stream": True, "stream_options": {"include_usage": True}} if streamed else {}))
    await world.scheduler.saw(RequestFinished)
    assert (world.gateway.counters.token_counts_differ, len(told)) == (differ, differ)


@pytest.mark.mission("B16")
async def test_both_engines_of_a_hand_off_are_compared(world, kit) -> None:
    await world.engine("p", answers(prefill_answer(kit, OURS + 1)))
    await world.engine("d", answers({"choices": [{"text": "Hi"}], "usage": usage(OURS + 1)}))
    kit.hands_off(world.scheduler)
    await world.start(models=MODELS)
    assert (await world.ask(TEXT)).status == 200
    assert world.gateway.counters.token_counts_differ == 2


@pytest.mark.parametrize("body", [TEXT | {"prompt": [1, 2, 3]}, TEXT | {"prompt": ["a b", "c"]}])
async def test_what_was_not_tokenised_here_is_not_compared(world, kit, body) -> None:
    await world.engine("d", answers({"choices": [{"text": "Hi"}], "usage": usage(99)}))
    kit.goes_whole(world.scheduler)
    await world.start(models=MODELS)
    assert (await world.ask(body)).status == 200
    assert world.gateway.counters.token_counts_differ == 0
