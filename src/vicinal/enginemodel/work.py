"""What goes into an engine and what comes out, as data. All stamps are model seconds."""

from msgspec import Struct

from vicinal.domain.tier import Tier
from vicinal.enginemodel.content import Content


class Work(Struct, frozen=True):
    """One leg of one request. `hold`: keep the prompt's blocks at the end, for another engine to pull. `pulls`: the
    prompt's KV is pulled from another engine instead of being computed."""

    id: str
    content: Content
    hold: bool = False
    pulls: bool = False


class Generated(Struct, frozen=True):
    """`count` tokens of a work, from output number `first` on: the first at `first_s`, the last at `last_s`."""

    id: str
    first: int
    count: int
    first_s: float
    last_s: float


class Finished(Struct, frozen=True):
    """A work's end. It always follows that work's last Generated.

    `started_s` is when it left the waiting queue. `cached_tokens` of the prompt were in this engine's own cache,
    `pulled_tokens` came from another engine. `held_blocks` is None unless the work asked to hold them. Of the cached
    tokens, `loaded_tokens` lay in a tier below HBM, by tier; the work waited `load_s` for them.
    """

    id: str
    arrived_s: float
    started_s: float
    first_token_s: float
    finished_s: float
    prompt_tokens: int
    cached_tokens: int
    pulled_tokens: int
    output_tokens: int
    preemptions: int
    held_blocks: tuple[int, ...] | None
    loaded_tokens: dict[Tier, int] = {}
    load_s: float = 0.0


class PullWanted(Struct, frozen=True):
    """The work has its blocks and waits for `blocks` blocks (`tokens` tokens of its prompt) from another engine."""

    id: str
    blocks: int
    tokens: int
    at_s: float


class BlocksSealed(Struct, frozen=True):
    """Blocks that can be reused from `tier` from now on. `parent` is None at the root; `tokens` is flat over all
    `keys`, and empty where a content is known by its keys only."""

    at_s: float
    parent: int | None
    keys: tuple[int, ...]
    tokens: bytes
    salt: bytes
    tier: Tier = Tier.HBM


class BlocksEvicted(Struct, frozen=True):
    at_s: float
    keys: tuple[int, ...]
    tier: Tier = Tier.HBM


class CacheCleared(Struct, frozen=True):
    """Nothing is left in `tier`; the others keep what they have."""

    at_s: float
    tier: Tier = Tier.HBM


CacheChange = BlocksSealed | BlocksEvicted | CacheCleared
Output = Generated | Finished | PullWanted | CacheChange
