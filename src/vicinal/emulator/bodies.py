"""Request bodies, as far as an engine looks into them. Fields that it does not know are ignored, as vLLM does."""

from typing import Annotated, Any

import msgspec

TokenId = Annotated[int, msgspec.Meta(ge=0, lt=2**32)]


class HandOff(msgspec.Struct, kw_only=True):
    """`kv_transfer_params`. A prefill leg asks with do_remote_decode and gets the rest; a decode leg brings it back."""

    do_remote_prefill: bool = False
    do_remote_decode: bool = False
    remote_block_ids: list[list[int]] | None = None
    remote_engine_id: str | None = None
    remote_request_id: str | None = None
    remote_host: str | None = None
    remote_port: int | None = None
    tp_size: int = 1
    dcp_size: int = 1
    pp_size: int = 1
    remote_num_tokens: int | None = None
    remote_blocks_expiry_time: float | None = None
    transfer_mode: str = "pull"
    remote_prefill_cached_tokens: int | None = None


class StreamOptions(msgspec.Struct):
    include_usage: bool | None = None


class Common(msgspec.Struct, kw_only=True):
    """What both endpoints share. `n` other than 1 is refused: an emulated engine says one thing per prompt."""

    model: str | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    seed: int | None = None
    ignore_eos: bool = False
    cache_salt: str | None = None
    kv_transfer_params: HandOff | None = None
    bootstrap_host: str | None = None
    bootstrap_port: int | None = None
    bootstrap_room: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


class CompletionBody(Common, kw_only=True):
    """A text, token ids, or a batch of either; a batch may have one prompt only."""

    prompt: str | list[TokenId | str | list[TokenId]]


class ChatBody(Common, kw_only=True):
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    max_completion_tokens: int | None = None


class TokenizeBody(msgspec.Struct, kw_only=True):
    """A text, or a chat."""

    model: str | None = None
    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True


COMPLETION = msgspec.json.Decoder(CompletionBody)
CHAT = msgspec.json.Decoder(ChatBody)
TOKENIZE = msgspec.json.Decoder(TokenizeBody)
