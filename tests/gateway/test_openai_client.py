"""The official client through the gateway, with a hand-off behind it."""

import openai
import pytest

from vicinal.domain.effects import Answer
from vicinal.domain.events import RequestArrived, RequestFinished
from vicinal.domain.outcome import Ending, Outcome


def delta(content: str, finish: str | None = None) -> dict:
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": content}, "finish_reason": finish}],
    }


async def read_to_the_end(stream) -> None:
    async with stream:
        async for _ in stream:
            pass


@pytest.mark.mission("B11")
async def test_the_official_client_streams_and_sees_errors(world, kit) -> None:
    async def prefill(seen, reply):
        await reply.json(kit.prefill_answer(chat=True))

    async def decode(seen, reply):
        await reply.open_stream()
        for text in ("", "Hello", " world"):
            await reply.event(delta(text))
        await reply.event(delta("", "length"))
        if seen.body.get("user") == "unlucky":
            reply.die()
        await reply.done()

    await world.engine("p", prefill)
    await world.engine("d", decode)
    kit.hands_off(world.scheduler)
    await world.start()
    async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{world.port}/v1", api_key="k", max_retries=0) as client:
        assert [model.id async for model in client.models.list()] == ["m"]
        chat = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
        text = ""
        async with await client.chat.completions.create(**chat) as stream:
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
        assert text == "Hello world"
        assert world.scheduler.of(RequestFinished)[0].output_tokens == 3
        broken = await client.chat.completions.create(**chat, user="unlucky")
        with pytest.raises(openai.APIError) as cut:
            await read_to_the_end(broken)
        assert cut.value.code == "stream_broken"
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.chat.completions.create(**(chat | {"model": "nope"}))
        with pytest.raises(openai.BadRequestError) as refused:
            await client.completions.create(model="m", prompt=[1] * 1000)
        assert refused.value.param == "prompt"
        world.scheduler.on(RequestArrived, lambda e: [Answer(e.request.id, Outcome(Ending.QUEUE_FULL, "full", 1))])
        with pytest.raises(openai.RateLimitError) as limited:
            await client.chat.completions.create(**chat)
        assert limited.value.code == "queue_full"
