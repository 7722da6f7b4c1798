"""The request bodies of `/v1/chat/completions` and `/v1/completions`, typed as far as a gateway must know them.

Fields that are not here belong to the engine alone and pass through unseen. What has a wrong type is refused with
the field's name, in the words of msgspec.
"""

import re
from typing import Annotated, Any, TypeVar

import msgspec

from vicinal.engines.handover import GATEWAY_FIELDS
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.errors import ApiError, invalid

_PATH = re.compile(r"^(?P<what>.*?)(?: - at `\$\.?(?P<path>.*?)`)?$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<name>.*)`$")

Body = TypeVar("Body")
Readable = bytes | bytearray
TokenId = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
Priority = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class CommonBody(msgspec.Struct, kw_only=True):
    """What both routes share. None means that the client leaves it to the engine; `priority` is never the engine's."""

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    n: int | None = None
    best_of: int | None = None
    use_beam_search: bool | None = None
    prompt_logprobs: int | None = None
    ignore_eos: bool | None = None
    cache_salt: str | None = None
    priority: Priority | None = None
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = None
    kv_transfer_params: Any = None
    bootstrap_host: Any = None
    bootstrap_port: Any = None
    bootstrap_room: Any = None
    disagg_prefill_dp_rank: Any = None

    @property
    def single_answer(self) -> bool:
        """One answer from one run over the prompt: the only kind whose KV can be handed off once."""
        several = (self.n or 1) > 1 or (self.best_of or 1) > 1
        return not several and not self.use_beam_search and self.prompt_logprobs is None


class CompletionBody(CommonBody, kw_only=True):
    """`/v1/completions`. `prompt` is kept raw: text, token ids, or a list of either (see prompts.py)."""

    prompt: msgspec.Raw


class ChatBody(CommonBody, kw_only=True):
    """`/v1/chat/completions`. The untyped fields change how an engine renders messages."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    max_completion_tokens: int | None = None
    chat_template: Any = None
    chat_template_kwargs: dict[str, Any] | None = None
    documents: Any = None
    reasoning_effort: Any = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None

    @property
    def renders_plainly(self) -> bool:
        """The model's own template makes the prompt from messages, tools and `chat_template_kwargs` alone."""
        special = (self.chat_template, self.documents, self.reasoning_effort, self.truncate_prompt_tokens)
        return all(value is None for value in special) and not self.continue_final_message


_completion = msgspec.json.Decoder(CompletionBody)
_chat = msgspec.json.Decoder(ChatBody)


def decode_completion(body: Readable) -> CompletionBody:
    """Raises ApiError 400, naming the field in `param`."""
    decoded = decode(_completion, body)
    _check(decoded)
    return decoded


def decode_chat(body: Readable) -> ChatBody:
    """Raises ApiError 400, naming the field in `param`."""
    decoded = decode(_chat, body)
    _check(decoded)
    _at_least_one(decoded.max_completion_tokens, "max_completion_tokens")
    if not decoded.messages:
        raise invalid("messages must not be empty", param="messages")
    for i, message in enumerate(decoded.messages):
        if not isinstance(message.get("role"), str):
            raise invalid("every message needs a role, a string", param=f"messages[{i}].role")
        if not isinstance(message.get("content"), str | list | None):
            raise invalid(
                "a message's content is a string or a list of parts",
                param=f"messages[{i}].content",
            )
    return decoded


def decode(decoder: "msgspec.json.Decoder[Body]", body: Readable | msgspec.Raw, *, field: str = "") -> Body:
    """Decode, turning every complaint into an ApiError 400. `field` names what `body` is a part of."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        what, param = _complaint(str(error), field)
        raise invalid(f"{what} (field `{param}`)" if param else what, param=param or None) from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ApiError(ErrorCode.INVALID_JSON, f"the body is not valid JSON: {error}") from None


def _complaint(text: str, field: str) -> tuple[str, str]:
    found = _PATH.match(text)
    what, path = (found["what"], found["path"] or "") if found else (text, "")
    missing = _MISSING.match(what)
    if missing:
        path = f"{path}.{missing['name']}" if path else missing["name"]
    return what, f"{field}.{path}" if field and path and not path.startswith("[") else field + path


def _check(body: CommonBody) -> None:
    _at_least_one(body.max_tokens, "max_tokens")
    _at_least_one(body.n, "n")
    for name in GATEWAY_FIELDS:
        if getattr(body, name) is not None:
            raise invalid(f"{name} is set by the gateway, never by a client", param=name)


def _at_least_one(value: int | None, name: str) -> None:
    if value is not None and value < 1:
        raise invalid(f"{name} must be at least 1, got {value}", param=name)
