"""Engines' own words for blocks, translated: block events of one engine become ready copies in the index.

An engine names blocks by hashes that mean nothing elsewhere. Its events carry the tokens too, so vicinal computes its
own hash of each block and remembers, per slot, which engine hash stands for which block; removals name engine hashes
only. A block may have several engine hashes (settings that differ, a restart in between), and an engine may hold two
physical copies under the same hash (vLLM stores and removes each of them with an event of its own), so a copy is gone
when the last of them is. Both are rare, so only a second one costs a counter.

Each tier has names of its own: what is removed from one stays in the others. An engine that stores a block in a lower
tier may leave out its tokens and its parent; its name then says which block it is, if any tier of that engine has it.

A *reset* is of the prefix cache in HBM: what vLLM says (AllBlocksCleared) comes from there, and nothing is known to
happen to the tiers below. A restart or a gap makes all tiers unknown, also those that may have outlived the process:
nothing says that they did.

The feed gives each event once and in order (gaps become `BlocksCleared`). What cannot be used is counted by name in
`counts` and has the effect written there; no event raises.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EngineHash
from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import ROOT, TOKEN_BYTES, chain, pack_hashes, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.losses import Losses

_Key = TypeVar("_Key")

BlockEvent = BlocksStored | BlocksRemoved | BlocksCleared


class Oddity(StrEnum):
    """Why something in an event was not taken as it came, and what was done instead."""

    OLD_INCARNATION = "old_incarnation"  # of an engine process that is gone: the event is dropped
    NEW_INCARNATION = "new_incarnation"  # the engine started again: its slot is cleared, then the event is applied
    WRONG_BLOCK_SIZE = "wrong_block_size"  # not the index's: the event is dropped; sizes do not mix in one index
    TOKENS_DO_NOT_FIT = "tokens_do_not_fit"  # not block_tokens (or one hash of ours) per hash: the event is dropped
    EXTRA_KEYS_DO_NOT_FIT = "extra_keys_do_not_fit"  # neither none nor one per hash: the event is dropped
    UNKNOWN_STORED = "unknown_stored"  # counted per hash: stored without tokens, and not known: it is passed over
    UNKNOWN_PARENT = "unknown_parent"  # continues a block never heard of: the event is dropped
    COLLISION = "collision"  # two prefixes with one hash: the event is dropped, the first keeps the place
    UNKNOWN_REMOVED = "unknown_removed"  # counted per hash: that hash is passed over
    STORED_AGAIN = "stored_again"  # counted per hash: one more removal is needed until the copy is gone
    RENAMED = "renamed"  # counted per hash: the engine hash now stands for other tokens; its old block is given up


@dataclass(slots=True)
class _Names:
    """The names in one tier of a slot. `more_stores` and `more_names` count only what comes on top of the first."""

    blocks: dict[EngineHash, int] = field(default_factory=dict)
    more_stores: Counter[EngineHash] = field(default_factory=Counter)
    more_names: Counter[int] = field(default_factory=Counter)

    def all_new(self, hashes: Sequence[EngineHash]) -> bool:
        """None of these names is known or comes twice."""
        return self.blocks.keys().isdisjoint(hashes) and len(set(hashes)) == len(hashes)


@dataclass(slots=True)
class _Engine:
    """An engine's life: its incarnation, and its names in each tier that it has used."""

    incarnation: int
    tiers: dict[Tier, _Names] = field(default_factory=lambda: {Tier.HBM: _Names()})

    def names(self, tier: Tier) -> _Names:
        names = self.tiers.get(tier)
        if names is None:
            names = self.tiers[tier] = _Names()
        return names

    def block(self, name: EngineHash, first: _Names) -> int | None:
        """What a name stands for, by the names of one tier and then by those of the others, HBM first."""
        block = first.blocks.get(name)
        if block is None and len(self.tiers) > 1:
            others = (self.tiers[tier] for tier in Tier if tier in self.tiers)
            return next((known for names in others if (known := names.blocks.get(name)) is not None), None)
        return block


class EngineBlocks:
    """Applies engines' block events to an index. Ready copies of its slots are changed by nobody else.

    `counts` is how often each `Oddity` was met, over all slots. `losses` remembers which ready copies left HBM lately.
    """

    def __init__(self, index: BlockIndex) -> None:
        self.index = index
        self.counts: Counter[str] = Counter()
        self.losses = Losses()
        self._slots: dict[int, _Engine] = {}

    def apply(self, slot: int, event: BlockEvent) -> None:
        """Take in one event of the engine in `slot`."""
        engine = self._slots.get(slot)
        if engine is None:
            engine = self._slots[slot] = _Engine(event.incarnation)
        elif event.incarnation < engine.incarnation:
            self.counts[Oddity.OLD_INCARNATION] += 1
            return
        elif event.incarnation > engine.incarnation:
            self.counts[Oddity.NEW_INCARNATION] += 1
            self._clear(slot)
            engine = self._slots[slot] = _Engine(event.incarnation)
        match event:
            case BlocksStored():
                self._store(slot, engine, event)
            case BlocksRemoved():
                self._remove(slot, engine, event)
            case BlocksCleared(reason="reset"):
                self._clear(slot, Tier.HBM)
                engine.tiers[Tier.HBM] = _Names()
            case BlocksCleared():
                self._clear(slot)
                engine.tiers = {Tier.HBM: _Names()}

    def forget(self, slot: int) -> None:
        """The engine left: nothing it said, its incarnation included, counts for who gets the slot next."""
        self.index.clear(slot)
        self.losses.forget(slot)
        self._slots.pop(slot, None)

    def names_held(self, slot: int) -> int:
        """Engine hashes remembered for a slot, over all tiers: what this map costs in memory."""
        engine = self._slots.get(slot)
        return 0 if engine is None else sum(len(names.blocks) for names in engine.tiers.values())

    def _store(self, slot: int, engine: _Engine, event: BlocksStored) -> None:
        names = engine.names(event.tier)
        if event.tier is not Tier.HBM and not event.token_ids and not event.block_hashes:
            self._store_known(slot, engine, names, event)
            return
        misfit = self._misfit(event)
        parent = ROOT if event.parent is None else engine.block(event.parent, names)
        if misfit is not None or parent is None:
            self.counts[misfit or Oddity.UNKNOWN_PARENT] += 1
            return
        packed = event.block_hashes or chain(event.token_ids, event.block_tokens, parent, event.extra_keys)
        self._store_chain(slot, names, event.tier, event.hashes, parent, packed)

    def _store_known(self, slot: int, engine: _Engine, names: _Names, event: BlocksStored) -> None:
        """A store that names blocks and does not describe them."""
        for name in event.hashes:
            block = engine.block(name, names)
            if block is None:
                self.counts[Oddity.UNKNOWN_STORED] += 1
            else:
                self._store_chain(slot, names, event.tier, (name,), self.index.parent(block), pack_hashes((block,)))

    def _store_chain(
        self, slot: int, names: _Names, tier: Tier, hashes: Sequence[EngineHash], parent: int, packed: bytes
    ) -> None:
        blocks = unpack(packed)
        held = self.index.held_among(slot, blocks, tier)
        if not self.index.store(slot, parent, packed, tier):
            self.counts[Oddity.COLLISION] += 1
            return
        if not held and names.all_new(hashes):
            names.blocks.update(zip(hashes, blocks, strict=True))
            return
        given_up: set[int] = set()
        for name, block in zip(hashes, blocks, strict=True):
            known = names.blocks.get(name)
            if known == block:
                self.counts[Oddity.STORED_AGAIN] += 1
                names.more_stores[name] += 1
                continue
            if known is not None:
                self.counts[Oddity.RENAMED] += 1
                del names.more_stores[name]
                if self._last_name(names, known):
                    given_up.add(known)
            names.blocks[name] = block
            if block in given_up:
                given_up.remove(block)
            elif block in held:
                names.more_names[block] += 1
            held.add(block)
        self._drop(slot, given_up, tier)

    def _misfit(self, event: BlocksStored) -> Oddity | None:
        if event.block_tokens != self.index.block_tokens:
            return Oddity.WRONG_BLOCK_SIZE
        if event.block_hashes:
            fits = len(event.block_hashes) == len(event.hashes) * HASH_BYTES
        else:
            fits = len(event.token_ids) == len(event.hashes) * event.block_tokens * TOKEN_BYTES
        if not fits:
            return Oddity.TOKENS_DO_NOT_FIT
        if event.extra_keys and len(event.extra_keys) != len(event.hashes):
            return Oddity.EXTRA_KEYS_DO_NOT_FIT
        return None

    def _remove(self, slot: int, engine: _Engine, event: BlocksRemoved) -> None:
        names = engine.names(event.tier)
        given_up: list[int] = []
        for name in event.hashes:
            block = names.blocks.get(name)
            if block is None:
                self.counts[Oddity.UNKNOWN_REMOVED] += 1
            elif not _one_less(names.more_stores, name):
                del names.blocks[name]
                if self._last_name(names, block):
                    given_up.append(block)
        self._drop(slot, given_up, event.tier)

    def _clear(self, slot: int, *tiers: Tier) -> None:
        """Nothing is there any more, in these tiers or, without any, in all."""
        self.index.clear(slot, tiers or tuple(Tier))
        self.losses.note_all(slot)

    def _drop(self, slot: int, blocks: Collection[int], tier: Tier) -> None:
        self.index.remove(slot, blocks, tier)
        if tier is Tier.HBM:
            self.losses.note(slot, blocks)

    def _last_name(self, names: _Names, block: int) -> bool:
        """Take one name away from a block; whether it was the last."""
        return not _one_less(names.more_names, block)


def _one_less(counter: Counter[_Key], key: _Key) -> bool:
    """Count one down; False when there was none. Keys at zero are dropped, so that the counter stays small."""
    count = counter.get(key, 0)
    if count == 1:
        del counter[key]
    elif count:
        counter[key] = count - 1
    return count > 0
