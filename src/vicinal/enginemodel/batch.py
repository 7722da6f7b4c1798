"""Who is in the next step: the running sequences in order of admission, then the queue, first come first served."""

from collections import deque

from vicinal.enginemodel.memory import Memory
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.sequence import Phase, Sequence
from vicinal.enginemodel.spec import Counters, EngineSpec
from vicinal.enginemodel.steps import Step, make_step


class Batcher:
    """`waiting` are queued, `ready` have pulled their prompt, `loaded` have what they found below HBM, `running` are in
    the batch, oldest first.

    With `async_scheduling` a step is decided on while the one before it runs, as vLLM does: so whoever is admitted when
    a step ends sits out the step that begins then. `settled`: the next step is this one's like, unless news comes.
    """

    def __init__(self, spec: EngineSpec, memory: Memory, counters: Counters, noise: Noise | None = None) -> None:
        self._spec = spec
        self._memory = memory
        self._counters = counters
        self._noise = noise
        self.waiting: deque[Sequence] = deque()
        self.ready: deque[Sequence] = deque()
        self.loaded: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.settled = True
        self._deferred: list[Sequence] = []
        self._warm_up_s = spec.warm_up_s

    def next_step(self, at_s: float, previous: Step | None = None) -> Step | None:
        """Compose the step that begins at `at_s`; None when nothing can run. `previous` is the one that just ended."""
        self.settled = True
        if not self._spec.ahead:
            self._take_ready()
        if self._goes_on(previous, at_s):
            return make_step(self._spec.timing, self._noise, at_s, self.running.copy(), [], previous)
        preemptions = self._counters.preemptions
        decodes = self._decodes(at_s)
        budget = self._spec.batched_tokens_max - len(decodes)
        chunks: list[tuple[Sequence, int]] = []
        for sequence in self.running:
            if sequence.phase is Phase.PREFILLING and budget > 0:
                budget -= _add_chunk(chunks, sequence, budget)
        if preemptions != self._counters.preemptions and self.running:
            # The queue is not looked at in a step that had to preempt.
            self.settled = False
        elif self._spec.ahead:
            self._look_ahead(at_s, decodes, chunks)
        else:
            self._admit(at_s, budget, chunks)
        if not decodes and not chunks:
            # Nothing runs, so there is nothing to be ahead of: whoever was admitted begins at once.
            return self.next_step(at_s, previous) if self._spec.ahead and self.running else None
        step = make_step(self._spec.timing, self._noise, at_s, decodes, chunks, previous)
        if chunks and self._warm_up_s:
            step.lengthen(self._warm_up_s)
            self._warm_up_s = 0.0
        return step

    def _goes_on(self, previous: Step | None, at_s: float) -> bool:
        """Whether the same sequences decode again: nobody came or left, and there is room for all their next tokens."""
        if previous is None or previous.chunks or self.waiting or self.ready or self.loaded:
            return False
        return previous.decodes == self.running and self._memory.grow(self.running, 1 + self._spec.ahead, at_s)

    def take_deferred(self) -> list[Sequence]:
        """Sequences that were admitted since the last call and wait for a transfer, or for what lies below HBM."""
        deferred, self._deferred = self._deferred, []
        return deferred

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is; its blocks are the caller's business."""
        if sequence.phase is Phase.WAITING:
            self.waiting.remove(sequence)
        elif sequence.phase is Phase.READY:
            self.ready.remove(sequence)
        elif sequence.phase is Phase.LOADED:
            self.loaded.remove(sequence)
        elif sequence.phase in (Phase.PREFILLING, Phase.DECODING):
            self.running.remove(sequence)
        sequence.phase = Phase.GONE

    def _take_ready(self) -> None:
        while self.ready and len(self.running) < self._spec.sequences_max:
            sequence = self.ready.popleft()
            sequence.phase = Phase.DECODING
            self.running.append(sequence)

    def _look_ahead(self, at_s: float, decodes: list[Sequence], chunks: list[tuple[Sequence, int]]) -> None:
        """Admit who joins the step after this one, with the token budget that this one's members leave there."""
        members = len(self.running)
        computing = dict(chunks)
        budget = self._spec.batched_tokens_max - sum(1 for s in decodes if s.remaining > 1)
        for sequence in self.running:
            if sequence.phase is Phase.PREFILLING:
                rest = sequence.target - sequence.computed - computing.get(sequence, 0)
                budget -= rest or sequence.remaining > 1
        self._take_ready()
        self._admit(at_s, budget, [])
        self.settled = len(self.running) == members

    def _decodes(self, at_s: float) -> list[Sequence]:
        """Running sequences that decode, each with room for its next token; preempts the youngest to make room.

        Whoever decides a step early also finds room for it early.
        """
        steps = 1 + self._spec.ahead
        decodes = [s for s in self.running if s.phase is Phase.DECODING]
        if self._memory.grow(decodes, steps, at_s):
            return decodes
        decodes = []
        for sequence in tuple(self.running):
            if sequence.phase is not Phase.DECODING:
                continue
            while sequence.phase is Phase.DECODING and not self._memory.grow((sequence,), steps, at_s):
                self._preempt(self.running[-1])
            if sequence.phase is Phase.DECODING:
                decodes.append(sequence)
        return decodes

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._memory.free(sequence)
        sequence.rewind()
        self._counters.preemptions += 1
        self.waiting.appendleft(sequence)

    def _admit(self, at_s: float, budget: int, chunks: list[tuple[Sequence, int]]) -> None:
        while self.loaded and budget > 0 and len(self.running) < self._spec.sequences_max:
            budget -= self._start(self.loaded.popleft(), budget, chunks)
        while self.waiting:
            sequence = self.waiting[0]
            # A pull costs the step nothing, so it needs neither budget nor a place in the batch yet.
            full = budget <= 0 or len(self.running) >= self._spec.sequences_max
            if (full and not sequence.pulls) or not self._memory.place(sequence, at_s):
                return
            self.waiting.popleft()
            if sequence.pulls:
                sequence.phase = Phase.PULLING
                self._deferred.append(sequence)
                continue
            if sequence.loading:
                sequence.phase = Phase.LOADING
                self._deferred.append(sequence)
                continue
            budget -= self._start(sequence, budget, chunks)

    def _start(self, sequence: Sequence, budget: int, chunks: list[tuple[Sequence, int]]) -> int:
        """Put a sequence that has its blocks into the batch. Returns what it takes of the budget."""
        sequence.phase = Phase.PREFILLING
        self.running.append(sequence)
        return _add_chunk(chunks, sequence, budget)


def _add_chunk(chunks: list[tuple[Sequence, int]], sequence: Sequence, budget: int) -> int:
    tokens = min(sequence.target - sequence.computed, budget)
    chunks.append((sequence, tokens))
    return tokens
