"""What a gateway and its reader say to each other: MessagePack, each message with its length before it.

The gateway says a `Setup` once, then jobs, each followed by its body's bytes. The reader answers each job before it
reads the next.
"""

import msgspec

from vicinal.domain.ids import ModelId
from vicinal.gateway.caller import Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.trust import TrustGroups
from vicinal.tokenizer.kinds import PromptKind

LENGTH_BYTES = 4


class ReaderModel(msgspec.Struct):
    """A `ServedModel` as it can be told."""

    id: ModelId
    block_tokens: int
    model_tokens_max: int
    tokenizer_folder: str | None


class Setup(msgspec.Struct):
    models: list[ReaderModel]
    trust: TrustGroups


class Job(msgspec.Struct):
    """A body to read, of `body_bytes`. `by_text` are the models and kinds of prompts that are matched by their text."""

    chat: bool
    caller: Caller
    by_text: list[tuple[ModelId, PromptKind]]
    body_bytes: int


class Read(msgspec.Struct, tag=True):
    """`parsed` has neither a name nor the length of answers that its gateway expects. `places` are those of the body's
    fields. `estimated` counts as `GatewayCounters.estimated_prompts` does."""

    parsed: ParsedRequest
    places: dict[str, tuple[int, int]]
    estimated: int


class Unread(msgspec.Struct, tag=True):
    """An `ApiError`."""

    code: ErrorCode
    message: str
    param: str | None = None


def packed(message: Setup | Job | Read | Unread) -> bytes:
    raw = msgspec.msgpack.encode(message)
    return len(raw).to_bytes(LENGTH_BYTES, "little") + raw
