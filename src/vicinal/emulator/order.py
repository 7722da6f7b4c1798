"""From a request body to an order: the prompt's tokens, how much to say, and which part of a hand-off it is.

All refusals that need no engine are here, with vLLM's words.
"""

from array import array
from dataclasses import dataclass
from typing import Any

import msgspec

from vicinal.domain.plan import Leg
from vicinal.emulator.bodies import CHAT, COMPLETION, ChatBody, Common, HandOff
from vicinal.emulator.errors import ApiError, bad_json, bad_value, no_room, too_long, unknown_model
from vicinal.emulator.speech import TextCodec
from vicinal.tokenizer.errors import ChatError

COMPLETION_TOKENS = 16
"""What OpenAI's completions endpoint, and vLLM's, generate when max_tokens is absent."""


@dataclass(frozen=True, slots=True)
class MeetsAt:
    """Where the legs of a bootstrap hand-off meet."""

    host: str
    port: int
    room: int


@dataclass(frozen=True, slots=True)
class Order:
    """`prompt` is packed little-endian uint32. `reason` is how the answer is going to end. A leg of a hand-off that is
    pulled has `hand_off`, one of a bootstrap hand-off `meets_at`."""

    chat: bool
    prompt: bytes
    prompt_tokens: int
    output_tokens: int
    reason: str
    seed: int
    salt: bytes
    streamed: bool
    include_usage: bool
    kind: Leg
    hand_off: HandOff | None
    meets_at: MeetsAt | None = None


@dataclass(frozen=True, slots=True)
class OrderReader:
    """Reads orders for one engine. `natural_tokens`: how long a chat's answer is when nothing limits it. `half` is the
    leg that an engine takes which runs as half of a bootstrap pair, None for any other."""

    model: str
    tokens_max: int
    natural_tokens: int
    codec: TextCodec
    half: Leg | None = None

    def completion(self, raw: bytes) -> Order:
        try:
            body = COMPLETION.decode(raw)
        except msgspec.DecodeError as error:
            raise bad_json(error) from None
        self.check_model(body.model)
        tokens = self._prompt_tokens(body.prompt)
        wanted = COMPLETION_TOKENS if body.max_tokens is None else body.max_tokens
        return self._order(body, False, tokens, wanted, "max_tokens")

    def chat(self, raw: bytes) -> Order:
        try:
            body = CHAT.decode(raw)
        except msgspec.DecodeError as error:
            raise bad_json(error) from None
        self.check_model(body.model)
        tokens = self.chat_tokens(body)
        if body.max_completion_tokens is not None:
            return self._order(body, True, tokens, body.max_completion_tokens, "max_completion_tokens")
        return self._order(body, True, tokens, body.max_tokens, "max_tokens")

    def _prompt_tokens(self, prompt: Any) -> list[int]:
        if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
            if len(prompt) > 1:
                raise bad_value("this engine takes one prompt per request.", "prompt", len(prompt))
            prompt = prompt[0]
        if isinstance(prompt, str):
            return self.codec.encode(prompt)
        if not set(map(type, prompt)) <= {int}:
            raise ApiError(400, "The prompt mixes token ids with something else.", "BadRequestError", "prompt")
        ids: list[int] = prompt
        return ids

    def chat_tokens(self, body: ChatBody) -> list[int]:
        try:
            return self.codec.encode_chat(body.messages, body.tools)
        except ChatError as error:
            raise ApiError(400, str(error), "BadRequestError", error.param) from None

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            raise unknown_model(name, self.model)

    def _order(self, body: Common, chat: bool, tokens: list[int], wanted: int | None, param: str) -> Order:
        if wanted is not None and wanted < 1:
            raise bad_value(f"{param} must be at least 1, got {wanted}.", param, wanted)
        if body.n not in (None, 1):
            raise bad_value("this engine generates one choice per prompt.", "n", body.n)
        if not tokens:
            raise ApiError(400, "The prompt must not be empty.", "BadRequestError", "prompt")
        room = self.tokens_max - len(tokens)
        if room < (wanted or 1):
            raise too_long(len(tokens), wanted or 1, self.tokens_max)
        output, reason = wanted, "length"
        if output is None:
            # A model stops by itself somewhere, unless it is told to ignore that; then only its context ends it.
            output, reason = (room, "length") if body.ignore_eos else (min(self.natural_tokens, room), "stop")
        if self.half is Leg.PREFILL:
            output, reason = 1, "length"  # such an engine computes the prompt and cuts its answer by itself
        return Order(
            chat=chat,
            prompt=array("I", tokens).tobytes(),
            prompt_tokens=len(tokens),
            output_tokens=output,
            reason=reason,
            seed=body.seed or 0,
            salt=(body.cache_salt or "").encode(),
            streamed=bool(body.stream),
            include_usage=bool(body.stream_options and body.stream_options.include_usage),
            kind=_pulled_leg(body.kv_transfer_params) if self.half is None else self.half,
            hand_off=body.kv_transfer_params if self.half is None else None,
            meets_at=None if self.half is None else _meets_at(body),
        )


def _pulled_leg(hand_off: HandOff | None) -> Leg:
    if hand_off is not None and hand_off.do_remote_decode:
        return Leg.PREFILL
    if hand_off is not None and hand_off.do_remote_prefill:
        return Leg.DECODE
    return Leg.WHOLE


def _meets_at(body: Common) -> MeetsAt:
    if body.bootstrap_host is None or body.bootstrap_room is None:
        raise no_room()
    return MeetsAt(body.bootstrap_host, body.bootstrap_port or 8998, body.bootstrap_room)
