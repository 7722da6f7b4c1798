"""A hand-off: the body of its prefill leg, and the decode leg that belongs to it.

An engine that is given the KV of one prompt and the words of another does not answer wrongly, it exits. So nothing here
takes the parameters of a hand-off and a body apart: a `PrefillLeg` is made from a request's body, reads its own answer,
and leaves a `HandOver` that holds that body already. A `HandOver` gives the decode leg once, to its own attempt; a
retry needs a new prefill leg.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Never

import msgspec

from vicinal.domain.endpoint import HandOff
from vicinal.engines.answers import Usage, UsageBody, usage_of
from vicinal.engines.splicing import AnyBody, spliced

GATEWAY_FIELDS = (
    "kv_transfer_params",
    "bootstrap_host",
    "bootstrap_port",
    "bootstrap_room",
    "disagg_prefill_dp_rank",
)
"""Fields of a body by which legs are made. A client that sets one could have an engine take another prompt's KV, or
enter a room twice; engines exit of either."""

_ONE = b"1"
_DROPPED = ("stream_options",)
_DROPPED_FOR_ONE_TOKEN = ("stream_options", "min_tokens")


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where and by what name two concurrent legs find each other.

    `host` and `port` are the prefill engine's bootstrap server, `number` is drawn anew for every attempt (63 bits: two
    attempts with one number crash an engine), `engine_id` is what that server calls the engine, where it is asked for.
    """

    host: str
    port: int
    number: int
    engine_id: str = ""
    prefill_rank: int | None = None


NOWHERE = Rendezvous("", 0, 0)
"""For hand-offs that are pulled: the legs do not meet."""


class SpentHandOverError(RuntimeError):
    """This hand-over was used already, or belongs to another attempt: a bug in whoever asks."""


class HandOver:
    """The decode leg of one prefill leg of one attempt. It cannot be copied."""

    __slots__ = ("_attempt", "_body", "_changes")

    def __init__(self, body: AnyBody, changes: Mapping[str, bytes], attempt: int) -> None:
        self._body: AnyBody | None = body
        self._changes = changes
        self._attempt = attempt

    def fits(self, attempt: int) -> bool:
        """It is unused, and of this attempt."""
        return self._body is not None and attempt == self._attempt

    def take(self, attempt: int) -> AnyBody:
        """The decode leg: the body that was prefilled, with what names its KV. Once. Raises SpentHandOverError."""
        body = self._body
        if body is None or attempt != self._attempt:
            raise SpentHandOverError(f"a hand-over of attempt {self._attempt} is used once, and not by {attempt}")
        self._body = None
        return spliced(body, self._changes)

    def __reduce__(self) -> Never:
        raise TypeError("a hand-over is used once: it cannot be copied")


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class Answer(msgspec.Struct):
    """The answer of a prefill leg as it comes, as far as any kind of hand-off looks into it."""

    choices: list[_Choice] = []
    usage: UsageBody | None = None
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


_answer = msgspec.json.Decoder(Answer)


@dataclass(frozen=True, slots=True)
class Told:
    """What one kind of hand-off reads from an answer: how to name the KV that was left (None: none was left), and
    usage."""

    changes: Mapping[str, bytes] | None
    usage: Usage


@dataclass(frozen=True, slots=True)
class Way:
    """One kind of hand-off. All functions are pure.

    `prefill` and `decode` give the fields that make a body a leg; `decode` is None where they come with the answer of
    the prefill leg, and `read` finds them there. `one_token`: the prefill leg has to be cut to one token; otherwise the
    engine does that itself. `ends_at_eos`: a first token that ends the text ends the request, nothing is handed off.
    `asks_engine_id`: the rendezvous needs the engine's id, which its bootstrap server tells.
    """

    kind: HandOff
    prefill: Callable[[Rendezvous], Mapping[str, bytes]]
    decode: Callable[[Rendezvous], Mapping[str, bytes]] | None
    read: Callable[[Answer], Told]
    one_token: bool
    ends_at_eos: bool
    asks_engine_id: bool = False


@dataclass(frozen=True, slots=True)
class PrefillAnswer:
    """What came back from a prefill leg. `hand_over` is None where there is nothing to hand over, or where the decode
    leg has left already (a concurrent hand-off). `ended`: this answer is all there will be."""

    hand_over: HandOver | None
    finish_reason: str | None
    usage: Usage
    ended: bool


class PrefillLeg:
    """The prefill leg of one attempt: `body` is sent, `hand_over` is there at once where the hand-off is concurrent.

    `request_body` is the client's. Raises ValueError when it is not a JSON object.
    """

    __slots__ = ("_attempt", "_request_body", "_way", "body", "hand_over")

    def __init__(self, way: Way, request_body: AnyBody, attempt: int, rendezvous: Rendezvous) -> None:
        self._way = way
        self._request_body = request_body
        self._attempt = attempt
        changes = {"stream": b"false", **way.prefill(rendezvous)}
        if way.one_token:
            changes["max_tokens"] = _ONE
            self.body: AnyBody = spliced(request_body, changes, _DROPPED_FOR_ONE_TOKEN, {"max_completion_tokens": _ONE})
        else:
            self.body = spliced(request_body, changes, _DROPPED)
        self.hand_over: HandOver | None = None
        if way.decode is not None:
            self.hand_over = HandOver(request_body, way.decode(rendezvous), attempt)

    @property
    def concurrent(self) -> bool:
        """The decode leg leaves together with this one."""
        return self._way.decode is not None

    def answered(self, answer: bytes) -> PrefillAnswer:
        """Read the answer to `body`. Raises ValueError when it is not an answer of OpenAI's shape."""
        try:
            read = _answer.decode(answer)
        except RecursionError:
            raise ValueError("the engine's answer is nested too deeply") from None
        if not read.choices:
            raise ValueError("the engine's answer has no choices")
        told = self._way.read(read)
        reason = read.choices[0].finish_reason
        hand_over = None
        if told.changes is not None and reason == "length":
            hand_over = HandOver(self._request_body, told.changes, self._attempt)
        return PrefillAnswer(hand_over, reason, told.usage, self._way.ends_at_eos and reason != "length")


def usage_told(answer: Answer) -> Told:
    """For hand-offs whose prefill leg answers with nothing but usage."""
    return Told(None, usage_of(answer.usage))
