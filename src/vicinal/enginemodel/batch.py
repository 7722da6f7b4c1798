"""Who is in the next step: the running sequences in order of admission, then the queue, first come first served."""

from collections import deque

from vicinal.enginemodel.memory import Memory
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.sequence import Phase, Sequence
from vicinal.enginemodel.spec import Counters, EngineSpec
from vicinal.enginemodel.steps import Step, make_step


class Batcher:
    """`waiting` are queued, `ready` have pulled their prompt, `running` are in the batch, oldest first.

    `passed_over`: the latest step looked at nobody in the queue, because it had to preempt.
    """

    def __init__(self, spec: EngineSpec, memory: Memory, counters: Counters, noise: Noise | None = None) -> None:
        self._spec = spec
        self._memory = memory
        self._counters = counters
        self._noise = noise
        self.waiting: deque[Sequence] = deque()
        self.ready: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.passed_over = False
        self._pulling: list[Sequence] = []

    def next_step(self, at_s: float, previous: Step | None = None) -> Step | None:
        """Compose the step that begins at `at_s`; None when nothing can run. `previous` is the one that just ended."""
        while self.ready and len(self.running) < self._spec.sequences_max:
            sequence = self.ready.popleft()
            sequence.phase = Phase.DECODING
            self.running.append(sequence)
        preemptions = self._counters.preemptions
        decodes = self._decodes(at_s)
        budget = self._spec.batched_tokens_max - len(decodes)
        chunks: list[tuple[Sequence, int]] = []
        for sequence in self.running:
            if sequence.phase is Phase.PREFILLING and budget > 0:
                budget -= _add_chunk(chunks, sequence, budget)
        self.passed_over = preemptions != self._counters.preemptions and bool(self.running)
        if not self.passed_over:
            self._admit(at_s, budget, chunks)
        if not decodes and not chunks:
            return None
        return make_step(self._spec.timing, self._noise, at_s, decodes, chunks, previous)

    def take_pulling(self) -> list[Sequence]:
        """Sequences that were admitted since the last call and wait for a transfer."""
        pulling, self._pulling = self._pulling, []
        return pulling

    def remove(self, sequence: Sequence) -> None:
        """Take a sequence out, wherever it is; its blocks are the caller's business."""
        if sequence.phase is Phase.WAITING:
            self.waiting.remove(sequence)
        elif sequence.phase is Phase.READY:
            self.ready.remove(sequence)
        elif sequence.phase in (Phase.PREFILLING, Phase.DECODING):
            self.running.remove(sequence)
        sequence.phase = Phase.GONE

    def _decodes(self, at_s: float) -> list[Sequence]:
        """Running sequences that decode, each with room for its next token; preempts the youngest to make room."""
        decodes: list[Sequence] = []
        for sequence in tuple(self.running):
            if sequence.phase is not Phase.DECODING:
                continue
            while sequence.phase is Phase.DECODING and not self._memory.grow((sequence,), 1, at_s):
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
        while self.waiting:
            sequence = self.waiting[0]
            # A pull costs the step nothing, so it needs neither budget nor a place in the batch yet.
            full = budget <= 0 or len(self.running) >= self._spec.sequences_max
            if (full and not sequence.pulls) or not self._memory.place(sequence, at_s):
                return
            self.waiting.popleft()
            if sequence.pulls:
                sequence.phase = Phase.PULLING
                self._pulling.append(sequence)
                continue
            sequence.phase = Phase.PREFILLING
            self.running.append(sequence)
            budget -= _add_chunk(chunks, sequence, budget)


def _add_chunk(chunks: list[tuple[Sequence, int]], sequence: Sequence, budget: int) -> int:
    tokens = min(sequence.target - sequence.computed, budget)
    chunks.append((sequence, tokens))
    return tokens
