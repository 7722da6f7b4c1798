"""Engines' own words for blocks, translated: block events of one engine become ready copies in the index.

An engine names blocks by hashes that mean nothing elsewhere. Its events carry the tokens too, so vicinal computes its
own hash of each block; removals name engine hashes only, so what stands for what must be remembered. Most engines of a
fleet agree, and most copies go by names that the index keeps once for all of them. What does not is kept here, per slot
and tier: copies of a block that others call otherwise; a block with several names; a name that the engine has stored
more than once (vLLM stores and removes each physical copy with an event of its own, so a copy is gone when the last of
them is).

Each tier has names of its own: what is removed from one stays in the others. An engine that stores a block in a lower
tier may leave out its tokens and its parent; its name then says which block it is, if any tier of that engine has it.

A *reset* is of the prefix cache in HBM: what vLLM says (AllBlocksCleared) comes from there, and nothing is known to
happen to the tiers below. A restart or a gap makes all tiers unknown, also those that may have outlived the process:
nothing says that they did.

The feed gives each event once and in order (gaps become `BlocksCleared`). What cannot be used is counted by name in
`counts` and has the effect written there; no event raises.
"""

from collections import Counter
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.request import HASH_BYTES
from vicinal.domain.tier import Tier
from vicinal.kvindex.engine_names import as_number, as_numbers
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
    GIVEN_UP = "given_up"  # counted per block: the index was full; it is forgotten, though its engine has it
    RENAMED = "renamed"  # counted per hash: the engine hash now stands for other tokens; its old block is given up


@dataclass(slots=True)
class _Names:
    """What is apart in one tier of a slot. `more_stores` and `more_names` count what comes on top of the first.

    `blocks` has the names that are not the common ones. A block is in `more_names` only if all its names are here;
    `more_stores` is of common names too.
    """

    blocks: dict[int, int] = field(default_factory=dict)
    more_stores: Counter[int] = field(default_factory=Counter)
    more_names: Counter[int] = field(default_factory=Counter)

    @property
    def empty(self) -> bool:
        return not self.blocks and not self.more_stores


@dataclass(slots=True)
class _Engine:
    """An engine's life: its incarnation, and what is apart in each tier that it has used."""

    incarnation: int
    hbm: _Names = field(default_factory=_Names)
    lower: dict[Tier, _Names] = field(default_factory=dict)

    def names(self, tier: Tier) -> _Names:
        if tier is Tier.HBM:
            return self.hbm
        names = self.lower.get(tier)
        if names is None:
            names = self.lower[tier] = _Names()
        return names

    @property
    def tiers(self) -> list[tuple[Tier, _Names]]:
        return [(Tier.HBM, self.hbm), *self.lower.items()]


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
        if isinstance(event, BlocksStored):
            self._store(slot, engine, event)
        elif isinstance(event, BlocksRemoved):
            self._remove(slot, engine, event)
        elif event.reason == "reset":
            self._clear(slot, Tier.HBM)
            engine.hbm = _Names()
        else:
            self._clear(slot)
            engine.hbm, engine.lower = _Names(), {}

    def forget(self, slot: int) -> None:
        """The engine left: nothing it said, its incarnation included, counts for who gets the slot next."""
        self.index.clear(slot)
        self.losses.forget(slot)
        self._slots.pop(slot, None)

    def forget_names(self, slot: int, blocks: Set[int]) -> None:
        """The index has dropped these blocks: so are their names here."""
        engine = self._slots.get(slot)
        for tier, names in engine.tiers if engine is not None else ():
            names.blocks = {name: block for name, block in names.blocks.items() if block not in blocks}
            for block in names.more_names.keys() & blocks:
                del names.more_names[block]
            for name in [*names.more_stores]:
                if name not in names.blocks and self.index.names.called(slot, name, tier) is None:
                    del names.more_stores[name]

    def begins_anew(self, slot: int, event: BlockEvent) -> bool:
        """Whether this event is the first of a later life of the engine: what it had is gone."""
        engine = self._slots.get(slot)
        return engine is not None and event.incarnation > engine.incarnation

    @property
    def epochs(self) -> dict[int, int]:
        """The incarnation of each slot's engine that has told something."""
        return {slot: engine.incarnation for slot, engine in self._slots.items()}

    def names_held(self, slot: int) -> int:
        """Engine hashes that stand for something in a slot, over all tiers."""
        engine = self._slots.get(slot)
        if engine is None:
            return 0
        return sum(
            self.index.blocks_held(slot, tier) - len(set(names.blocks.values())) + len(names.blocks)
            for tier, names in engine.tiers
        )

    def names_apart(self, slot: int) -> int:
        """How many of them are kept for this slot alone: what it costs in memory that its names are not the others'."""
        engine = self._slots.get(slot)
        return 0 if engine is None else sum(len(names.blocks) for _, names in engine.tiers)

    def _store(self, slot: int, engine: _Engine, event: BlocksStored) -> None:
        hashes, packed_names = as_numbers(event.hashes)
        if event.tier is not Tier.HBM and not event.token_ids and not event.block_hashes:
            self._store_known(slot, engine, event.tier, hashes)
            return
        misfit = self._misfit(event)
        parent: int | None = ROOT
        if event.parent is not None:
            parent = self._block(slot, engine, event.tier, as_number(event.parent))
        if misfit is not None or parent is None:
            self.counts[misfit or Oddity.UNKNOWN_PARENT] += 1
            return
        packed = event.block_hashes or chain(event.token_ids, event.block_tokens, parent, event.extra_keys)
        if event.tier is not Tier.HBM and not event.extra_keys and hashes:
            # vLLM describes what it offloads without extra keys, so a name that is known goes before a description.
            known = self._block(slot, engine, event.tier, hashes[0])
            if known is not None and known != unpack(packed[:HASH_BYTES])[0]:
                self._store_known(slot, engine, event.tier, hashes)
                return
        self._store_chain(slot, engine.names(event.tier), event.tier, hashes, packed_names, parent, packed)

    def _block(self, slot: int, engine: _Engine, tier: Tier, name: int) -> int | None:
        """What a name stands for in one tier of an engine, or else in another, HBM first."""
        block = self._block_in(slot, engine.names(tier), tier, name)
        if block is not None or (tier is Tier.HBM and not engine.lower):
            return block
        found = (self._block_in(slot, engine.names(at), at, name) for at in Tier)
        return next((block for block in found if block is not None), None)

    def _block_in(self, slot: int, names: _Names, tier: Tier, name: int) -> int | None:
        block = names.blocks.get(name) if names.blocks else None
        return self.index.names.called(slot, name, tier) if block is None else block

    def _store_known(self, slot: int, engine: _Engine, tier: Tier, hashes: Sequence[int]) -> None:
        """A store that names blocks and does not describe them."""
        for name in hashes:
            block = self._block(slot, engine, tier, name)
            if block is None:
                self.counts[Oddity.UNKNOWN_STORED] += 1
            else:
                parent, packed = self.index.parent(block), pack_hashes((block,))
                self._store_chain(slot, engine.names(tier), tier, (name,), pack_hashes((name,)), parent, packed)

    def _store_chain(
        self,
        slot: int,
        names: _Names,
        tier: Tier,
        hashes: Sequence[int],
        packed_names: bytes,
        parent: int,
        packed: bytes,
    ) -> None:
        if not names.blocks or names.blocks.keys().isdisjoint(hashes):
            again = self.index.names.store(slot, parent, packed, packed_names, tier)
            if again is not None:
                if again:
                    self.counts[Oddity.STORED_AGAIN] += len(unpack(again))
                    names.more_stores.update(unpack(again))
                return
        if not self.index.takes(parent, packed):
            self.counts[Oddity.COLLISION] += 1
            return
        self._store_apart(slot, names, tier, hashes, parent, packed)

    def _store_apart(
        self, slot: int, names: _Names, tier: Tier, hashes: Sequence[int], parent: int, packed: bytes
    ) -> None:
        """A store of which something does not go by the common names: all of it is kept apart."""
        index, blocks = self.index, unpack(packed)
        if index.names.knows_any(hashes):
            common = [block for name in hashes if (block := index.names.called(slot, name, tier)) is not None]
            names.blocks |= index.names.set_apart(slot, common, tier)
        held = index.held_among(slot, blocks, tier)
        if held:
            names.blocks |= index.names.set_apart(slot, held, tier)
        index.store(slot, parent, packed, tier)
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
        (hashes, _), tier = as_numbers(event.hashes), event.tier
        names = engine.names(tier)
        if names.empty:
            unknown = len(hashes) - self._remove_common(slot, hashes, tier)
        else:
            unknown = sum(not self._remove_one(slot, names, tier, name) for name in hashes)
        if unknown:
            self.counts[Oddity.UNKNOWN_REMOVED] += unknown

    def _remove_common(self, slot: int, hashes: Sequence[int], tier: Tier) -> int:
        """Take back stores under common names; how many there were."""
        gone = self.index.names.remove(slot, hashes, tier)
        if tier is Tier.HBM:
            self.losses.note_packed(slot, gone)
        return len(gone) // HASH_BYTES

    def _remove_one(self, slot: int, names: _Names, tier: Tier, name: int) -> bool:
        """Take back one store under this name; False when there is none."""
        if _one_less(names.more_stores, name):
            return True
        block = names.blocks.pop(name, None)
        if block is None:
            return bool(self._remove_common(slot, (name,), tier))
        if self._last_name(names, block):
            self._drop(slot, (block,), tier)
        return True

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
