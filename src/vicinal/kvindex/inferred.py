"""What is taken to be in slots whose engines do not tell: what was computed there, till it is old or crowded out.

It is for endpoints without KV events, and for prompts whose blocks are named by text and not by tokens, which no event
can confirm. A prompt counts as held once its prefill is done. Per slot the prompts are kept in the order of their last
use; the least recently used goes when there are more blocks than the engine has room for, and whatever was not used for
`ttl_s` goes too, because the engine serves others than us and says nothing of them. Copies that an engine tells of are
never touched: a slot's prompts are inferred only while it tells nothing, or in names that it does not know.
"""

from dataclasses import dataclass, field
from math import inf

from vicinal.domain.request import HASH_BYTES
from vicinal.kvindex.hashing import ROOT, unpack
from vicinal.kvindex.index import BlockIndex

TTL_S = 300.0
"""An engine at work turns its cache over in minutes; what was not asked for in five is as likely gone as not."""


@dataclass(slots=True)
class _Slot:
    """`used` are packed chains with the time of their last use, by their last block, least recently used first; none is
    the beginning of a later one. `blocks` counts what they cover together."""

    used: dict[int, tuple[bytes, float]] = field(default_factory=dict)
    blocks: int = 0
    last_s: float = -inf


class InferredBlocks:
    """Stores and removes ready copies in HBM. `given_up` counts chains that were crowded out, `expired` old ones."""

    def __init__(self, index: BlockIndex, ttl_s: float = TTL_S) -> None:
        self.given_up = 0
        self.expired = 0
        self._index = index
        self._ttl_s = ttl_s
        self._slots: dict[int, _Slot] = {}
        self._next_expiry_s = inf

    def blocks(self, slot: int) -> int:
        """Copies in this slot that are inferred."""
        return self._slots[slot].blocks if slot in self._slots else 0

    def last_s(self, slot: int) -> float:
        """When something was last inferred of this slot, -inf for never."""
        return self._slots[slot].last_s if slot in self._slots else -inf

    def learn(self, slot: int, hashes: bytes, blocks_max: int, now: float) -> None:
        """The slot's engine has computed, or was handed, this chain. At most `blocks_max` blocks are believed there."""
        hashes = hashes[: blocks_max * HASH_BYTES]
        held = self._index.blocks_held(slot)
        if not hashes or not self._index.store(slot, ROOT, hashes):
            return
        here = self._slots.setdefault(slot, _Slot())
        here.blocks += self._index.blocks_held(slot) - held
        here.last_s = now
        blocks = unpack(hashes)
        for last in [block for block in blocks if block in here.used]:
            del here.used[last]
        here.used[blocks[-1]] = hashes, now
        while here.blocks > blocks_max and len(here.used) > 1:
            self._drop_oldest(slot, here)
            self.given_up += 1
        self._next_expiry_s = min(self._next_expiry_s, now + self._ttl_s)

    def expire(self, now: float) -> None:
        """Drop what is too old to be believed."""
        if now < self._next_expiry_s:
            return
        self._next_expiry_s = inf
        for slot, here in self._slots.items():
            while here.used:
                used_s = next(iter(here.used.values()))[1]
                if used_s + self._ttl_s > now:
                    self._next_expiry_s = min(self._next_expiry_s, used_s + self._ttl_s)
                    break
                self._drop_oldest(slot, here)
                self.expired += 1

    def forget(self, slot: int) -> None:
        """Nothing is inferred of this slot any more: its engine was lost, left, restarted, or speaks for itself now."""
        here = self._slots.pop(slot, None)
        if here is not None:
            for hashes, _ in here.used.values():
                self._index.remove(slot, unpack(hashes))

    def _drop_oldest(self, slot: int, here: _Slot) -> None:
        """Remove the oldest chain but for what others begin with."""
        hashes, _ = here.used.pop(next(iter(here.used)))
        blocks = unpack(hashes)
        kept = self._index.blocks_above_others(slot, hashes)
        kept = next((number for number in range(len(blocks), kept, -1) if blocks[number - 1] in here.used), kept)
        held = self._index.blocks_held(slot)
        self._index.remove(slot, blocks[kept:])
        here.blocks -= held - self._index.blocks_held(slot)
