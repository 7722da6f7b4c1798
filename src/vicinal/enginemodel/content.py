"""What a work's tokens are: given as they are, or only by the keys of their blocks.

The emulator answers with text and publishes tokens, so its works have them. A simulation needs to know only which
blocks are the same; making and hashing millions of tokens would be most of its time.
"""

from dataclasses import dataclass, field
from typing import Protocol

from vicinal.enginemodel.chain import TOKEN_BYTES, extend_chain


class Content(Protocol):
    """A prompt and what the model is going to say to it; the engine decides only when."""

    @property
    def prompt_tokens(self) -> int: ...

    @property
    def output_tokens(self) -> int: ...

    @property
    def salt(self) -> bytes:
        """Keeps blocks apart from those of other salts."""
        ...

    def extend(self, keys: list[int], blocks: int, block_tokens: int) -> None:
        """Append keys of full blocks, of the prompt and then the output, until there are `blocks` of them."""
        ...

    def token_bytes(self, first_block: int, last_block: int, block_tokens: int) -> bytes:
        """The tokens of some blocks, packed little-endian uint32; empty when they are not known."""
        ...


@dataclass(frozen=True, slots=True)
class Text:
    """Tokens, packed little-endian uint32."""

    prompt: bytes
    output: bytes
    salt: bytes = b""
    _all: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_all", self.prompt + self.output)

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt) // TOKEN_BYTES

    @property
    def output_tokens(self) -> int:
        return len(self.output) // TOKEN_BYTES

    def extend(self, keys: list[int], blocks: int, block_tokens: int) -> None:
        extend_chain(keys, self._all, blocks, block_tokens, self.salt)

    def token_bytes(self, first_block: int, last_block: int, block_tokens: int) -> bytes:
        width = block_tokens * TOKEN_BYTES
        return self._all[first_block * width : last_block * width]


@dataclass(frozen=True, slots=True)
class Named:
    """`keys` of all full blocks of prompt and output together, of the block size of the engine that it goes to."""

    keys: list[int]
    prompt_tokens: int
    output_tokens: int
    salt: bytes = b""

    def extend(self, keys: list[int], blocks: int, block_tokens: int) -> None:  # noqa: ARG002
        keys += self.keys[len(keys) : blocks]

    def token_bytes(self, first_block: int, last_block: int, block_tokens: int) -> bytes:  # noqa: ARG002
        return b""
