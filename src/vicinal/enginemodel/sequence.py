"""One work inside an engine: how far it is and which blocks it has."""

from enum import Enum

from vicinal.domain.tier import Tier
from vicinal.enginemodel.work import Work


class Phase(Enum):
    WAITING = "waiting"
    PULLING = "pulling"
    LOADING = "loading"
    LOADED = "loaded"
    READY = "ready"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    GONE = "gone"


class Sequence:
    """`computed` tokens have their KV in `blocks`; `generated` tokens have been sampled.

    After prefill, computed = prompt + generated - 1, because the newest token has no KV until the step that uses it.
    `target` is what the current prefill must reach: the prompt, or after a preemption all tokens so far. `loading`
    counts the blocks that were found below HBM when it was last placed, by tier; empty for none.
    """

    __slots__ = (
        "arrived_s",
        "block_tokens",
        "blocks",
        "cached_tokens",
        "computed",
        "content",
        "first_token_s",
        "generated",
        "keys",
        "load_s",
        "loaded_tokens",
        "loading",
        "output_tokens",
        "phase",
        "preemptions",
        "prompt_tokens",
        "pulled_tokens",
        "sealed",
        "started_s",
        "target",
        "work",
    )

    def __init__(self, work: Work, block_tokens: int, arrived_s: float) -> None:
        self.work = work
        self.block_tokens = block_tokens
        self.content = work.content
        self.prompt_tokens = work.content.prompt_tokens
        self.output_tokens = work.content.output_tokens
        self.keys: list[int] = []
        self.blocks: list[int] = []
        self.sealed = 0
        self.computed = 0
        self.generated = 0
        self.target = self.prompt_tokens
        self.phase = Phase.WAITING
        self.arrived_s = arrived_s
        self.started_s: float | None = None
        self.first_token_s: float | None = None
        self.cached_tokens = 0
        self.pulled_tokens = 0
        self.loading: list[int] = []
        self.loaded_tokens: dict[Tier, int] = {}
        self.load_s = 0.0
        self.preemptions = 0

    @property
    def context_tokens(self) -> int:
        """Tokens whose KV the next decode step reads."""
        return self.prompt_tokens + self.generated

    @property
    def remaining(self) -> int:
        return self.output_tokens - self.generated

    @property
    def pulls(self) -> bool:
        """A preempted sequence recomputes: what it pulled once is not offered again."""
        return self.work.pulls and not self.preemptions

    def keys_of(self, blocks: int) -> list[int]:
        """Keys of the first `blocks` blocks, all of whose tokens must be known."""
        if len(self.keys) < blocks:
            self.content.extend(self.keys, blocks, self.block_tokens)
        return self.keys if len(self.keys) == blocks else self.keys[:blocks]

    def blocks_missing(self, steps: int) -> int:
        """Blocks to be added before `steps` more decode steps can run, or all that remain if they are fewer."""
        tokens = self.prompt_tokens + min(self.generated + steps, self.output_tokens) - 1
        return -(-tokens // self.block_tokens) - len(self.blocks)

    def token_bytes(self, first_block: int, last_block: int) -> bytes:
        return self.content.token_bytes(first_block, last_block, self.block_tokens)

    def rewind(self) -> None:
        """Preempted: everything so far has to be computed again, except what the cache still has then."""
        self.blocks = []
        self.sealed = 0
        self.computed = 0
        self.target = self.context_tokens
        self.phase = Phase.WAITING
        self.preemptions += 1
