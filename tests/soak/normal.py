"""Well-behaved requests whose answers are known: the same prompts again and again, plain and streamed.

What an emulated model says depends on the prompt alone, so an answer that differs in one byte from the first one, a
stream that is not the plain answer in pieces, or any status but 200 is harm.
"""

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.soak.wire import Answer, Wire, WrongAnswerError, post, wire

_IDLE_S_MAX = 20.0
_ANSWER_S_MAX = 120.0
_READY_S_MAX = 60.0
_WORDS = ("a", "model", "said", "that", "the", "road", "to", "sea", "was", "long", "and", "light", "old", "as", "stone")


@dataclass(frozen=True, slots=True)
class Question:
    """One of the prompts, as a body without `stream`."""

    path: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Truth:
    """What the model says to a question."""

    text: str
    finish: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(slots=True)
class Tally:
    """What normal requests met; latencies in seconds since the last report."""

    ok: int = 0
    failed: int = 0
    to_first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)


def questions(model: str, count: int, chance: random.Random) -> list[Question]:
    """Prompts of 10 to 2,000 words, of which half share their beginnings; answers of 1 to 96 tokens."""
    made = []
    shared = " ".join(chance.choices(_WORDS, k=800))
    for number in range(count):
        words = " ".join(chance.choices(_WORDS, k=chance.choice((10, 100, 400, 1200))))
        text = f"{shared if number % 2 else ''} {number} {words}"
        limits = {"model": model, "max_tokens": chance.choice((1, 16, 48, 96))}
        if number % 3:
            made.append(Question("/v1/completions", limits | {"prompt": text}))
        else:
            messages = [{"role": "user", "content": text}]
            made.append(Question("/v1/chat/completions", limits | {"messages": messages}))
    return made


def truth_of(answer: Answer) -> Truth:
    """Of a plain answer. WrongAnswerError for what is none."""
    if answer.status != 200:
        raise WrongAnswerError(f"status {answer.status}: {answer.body[:200]!r}")
    try:
        said = json.loads(answer.body)
        (choice,) = said["choices"]
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        usage = said["usage"]
        return Truth(text, choice["finish_reason"], usage["prompt_tokens"], usage["completion_tokens"])
    except (ValueError, KeyError, TypeError) as error:
        raise WrongAnswerError(f"a plain answer that cannot be read: {error!r}") from None


def truth_of_stream(answer: Answer) -> Truth:
    """Of a streamed answer that asked for its usage."""
    if answer.status != 200:
        raise WrongAnswerError(f"status {answer.status}: {answer.body[:200]!r}")
    events = answer.body.split(b"\n\n")
    if events[-2:] != [b"data: [DONE]", b""]:
        raise WrongAnswerError(f"a stream that ends with {answer.body[-80:]!r}")
    text, finish, usage = "", "", None
    try:
        for event in events[:-2]:
            said = json.loads(event.removeprefix(b"data: "))
            usage = said.get("usage") or usage
            for choice in said["choices"]:
                text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
                finish = choice["finish_reason"] or finish
        assert usage is not None
        return Truth(text, finish, usage["prompt_tokens"], usage["completion_tokens"])
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise WrongAnswerError(f"a stream that cannot be read: {error!r}") from None


class Normal:
    """Asks, and compares. `learn` first."""

    def __init__(self, host: str, port: int, asked: Sequence[Question], chance: random.Random) -> None:
        self.tally = Tally()
        self._host = host
        self._port = port
        self._questions = asked
        self._chance = chance
        self._truths: dict[int, Truth] = {}
        self._idle: list[Wire] = []

    async def learn(self) -> None:
        """Ask each question once, before anything hostile happens. Raises what goes wrong."""
        await self._ready()
        for number, question in enumerate(self._questions):
            async with wire(self._host, self._port) as opened, asyncio.timeout(_ANSWER_S_MAX):
                await opened.send(post(question.path, question.body))
                self._truths[number] = truth_of(await opened.answer())

    async def _ready(self) -> None:
        """Wait until the gateway says that requests may come. TimeoutError."""
        async with asyncio.timeout(_READY_S_MAX):
            while True:
                with contextlib.suppress(OSError, EOFError):
                    async with wire(self._host, self._port) as opened:
                        await opened.send(b"GET /health HTTP/1.1\r\nHost: soak\r\n\r\n")
                        if (await opened.answer()).status == 200:
                            return
                await asyncio.sleep(0.5)

    async def ask(self) -> None:
        """One request, on a connection that was used before if there is one."""
        number = self._chance.randrange(len(self._questions))
        streamed = self._chance.random() < 0.5
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        opened = None
        try:
            async with asyncio.timeout(_ANSWER_S_MAX):
                opened = self._take(begin_s) or await Wire.to(self._host, self._port)
                answer = await self._ask(opened, number, streamed)
            self.tally.ok += 1
            self.tally.to_first_s.append(answer.first_s - begin_s)
            self.tally.whole_s.append(loop.time() - begin_s)
            if opened.kept:
                opened.used_s = loop.time()
                self._idle.append(opened)
                opened = None
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError, WrongAnswerError) as error:
            self.tally.failed += 1
            what = "stream" if streamed else "plain"
            self.tally.reasons[f"{what}: {type(error).__name__}: {error}"[:300]] += 1
        finally:
            if opened is not None:
                opened.abort()

    async def ask_in_pieces(self) -> None:
        """A right request that comes a few bytes at a time: its answer is as right as any."""
        number = self._chance.randrange(len(self._questions))
        try:
            async with wire(self._host, self._port) as opened, asyncio.timeout(_ANSWER_S_MAX):
                message = self._message(number, streamed=True)
                at = 0
                while at < len(message):
                    size = self._chance.choice((1, 2, 7, 100, 1000))
                    await opened.send(message[at : at + size])
                    at += size
                    await asyncio.sleep(self._chance.choice((0.0, 0.001, 0.02)))
                self._compare(number, truth_of_stream(await opened.answer()))
        except (OSError, EOFError, TimeoutError, ValueError, asyncio.LimitOverrunError, WrongAnswerError) as error:
            self.tally.failed += 1
            self.tally.reasons[f"in pieces: {type(error).__name__}: {error}"[:300]] += 1
            return
        self.tally.ok += 1

    def close(self) -> None:
        while self._idle:
            self._idle.pop().abort()

    def _take(self, now_s: float) -> Wire | None:
        """Old ones are given up: the server closes those some time, and a race with it would be nobody's fault."""
        while self._idle:
            opened = self._idle.pop()
            if now_s - opened.used_s < _IDLE_S_MAX and not opened.reader.at_eof():
                return opened
            opened.close()
        return None

    async def _ask(self, opened: Wire, number: int, streamed: bool) -> Answer:
        await opened.send(self._message(number, streamed))
        answer = await opened.answer()
        self._compare(number, (truth_of_stream if streamed else truth_of)(answer))
        return answer

    def _message(self, number: int, streamed: bool) -> bytes:
        question = self._questions[number]
        body = question.body
        if streamed:
            body = body | {"stream": True, "stream_options": {"include_usage": True}}
        return post(question.path, body)

    def _compare(self, number: int, said: Truth) -> None:
        if said != self._truths[number]:
            raise WrongAnswerError(f"question {number} was answered {said!r} and not {self._truths[number]!r}")
