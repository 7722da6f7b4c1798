"""The blocks of an engine's sequences: placing, growing, sealing and freeing them, and telling what the cache gained.

A sequence gets the blocks of its whole prompt when it is admitted (vLLM's scheduler_reserve_full_isl), and one more
whenever its next token needs one. Cached blocks are shared. At least the prompt's last token is always computed, so
the longest usable hit is (n - 1) tokens, rounded down to blocks. What HBM lacks of them may lie in a tier below, where
there is one (enginemodel/lower.py): it is loaded before the rest is computed, and counts as cached.
"""

from collections.abc import Sequence as Seq

from vicinal.enginemodel.blocks import BlockPool
from vicinal.enginemodel.lower import LowerTiers
from vicinal.enginemodel.sequence import Sequence
from vicinal.enginemodel.spec import Counters, EngineSpec
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheCleared, Output


class Memory:
    """Appends CacheChanges to `outputs` as they happen."""

    def __init__(self, spec: EngineSpec, counters: Counters, outputs: list[Output]) -> None:
        self.pool = BlockPool(spec.blocks)
        self.lower = LowerTiers(spec.below, outputs) if spec.below else None
        self._block_tokens = spec.block_tokens
        self._counters = counters
        self._outputs = outputs
        self._clear_unreported = False

    def place(self, sequence: Sequence, at_s: float) -> bool:
        """Give a queued sequence all blocks of its `target` tokens, shared as far as the cache has them.

        `sequence.loading` then says what of the rest is to be loaded first; whoever pulls its prompt loads nothing.
        """
        block_tokens = self._block_tokens
        keys = sequence.keys_of((sequence.target - 1) // block_tokens)
        hit = self.pool.match(keys)
        lower = self.lower
        loading = [] if lower is None or sequence.pulls else lower.find(keys, hit)
        blocks = -(-sequence.target // block_tokens)
        if not self._take(sequence, keys[:hit], blocks - hit, at_s):
            return False
        hit_tokens = hit * block_tokens
        sequence.sealed = hit
        sequence.computed = hit_tokens
        sequence.loading = loading
        if lower is not None:
            lower.touch(keys)
        if not sequence.preemptions:
            self._count_prefix(sequence, hit_tokens)
        if sequence.started_s is None:
            sequence.started_s = at_s
        return True

    def loaded(self, sequence: Sequence, at_s: float) -> None:
        """What `sequence.loading` counts is in HBM now, and where it lay it was read through stays there too."""
        sequence.computed += sum(sequence.loading) * self._block_tokens
        sequence.loading = []
        self.seal(sequence, at_s)

    def grow(self, sequences: Seq[Sequence], steps: int, at_s: float) -> bool:
        """Give decoding sequences the blocks of their next `steps` steps: all of them, or (False) nothing."""
        missing = [(s, n) for s in sequences if (n := s.blocks_missing(steps)) > 0]
        if not missing:
            return True
        if sum(n for _, n in missing) > self.pool.free:
            return False
        for sequence, blocks in missing:
            self._take(sequence, (), blocks, at_s)
        return True

    def seal(self, sequence: Sequence, at_s: float) -> None:
        """Make the blocks that are full by now reusable."""
        full = sequence.computed // self._block_tokens
        if full <= sequence.sealed:
            return
        keys = sequence.keys_of(full)
        for first, last in self.pool.seal(sequence.blocks, keys, sequence.sealed, full):
            self.report_clear(at_s)
            parent = keys[first - 1] if first else None
            tokens = sequence.token_bytes(first, last)
            self._outputs.append(BlocksSealed(at_s, parent, tuple(keys[first:last]), tokens, sequence.content.salt))
        if self.lower is not None:
            self.lower.store(sequence, keys, sequence.sealed, full, at_s)
        sequence.sealed = full

    def free(self, sequence: Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []

    def clear(self) -> bool:
        if not self.pool.clear():
            return False
        self._clear_unreported = True
        return True

    def report_clear(self, at_s: float) -> None:
        """An idle vLLM keeps silent about a reset until its next step; so does this."""
        if self._clear_unreported:
            self._clear_unreported = False
            self._outputs.append(CacheCleared(at_s))

    def _take(self, sequence: Sequence, shared: Seq[int], fresh: int, at_s: float) -> bool:
        taken = self.pool.take(shared, fresh)
        if taken is None:
            return False
        sequence.blocks.extend(taken.blocks)
        if taken.evicted:
            self.report_clear(at_s)
            self._outputs.append(BlocksEvicted(at_s, tuple(taken.evicted)))
        return True

    def _count_prefix(self, sequence: Sequence, hit_tokens: int) -> None:
        missed = sequence.prompt_tokens - hit_tokens
        sequence.cached_tokens = hit_tokens
        if sequence.loading:
            self._count_loads(sequence)
        sequence.pulled_tokens = missed if sequence.pulls else 0
        self._counters.prefix_queries_tokens += sequence.prompt_tokens
        self._counters.prefix_hits_tokens += hit_tokens
        self._counters.external_queries_tokens += missed

    def _count_loads(self, sequence: Sequence) -> None:
        assert self.lower is not None
        counters = self._counters
        for spec, blocks in zip(self.lower.specs, sequence.loading, strict=True):
            if tokens := blocks * self._block_tokens:
                sequence.loaded_tokens[spec.tier] = tokens
                sequence.cached_tokens += tokens
                counters.loaded_tokens[spec.tier] = counters.loaded_tokens.get(spec.tier, 0) + tokens
                counters.external_hits_tokens += tokens
