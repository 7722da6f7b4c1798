"""An engine: continuous batching over a pool of KV blocks, in model time, without a clock.

The rules are vLLM's. A step is a batch: one token for every decoding sequence, and chunks of prompts with what is left
of the step's token budget, first come first served. Whoever is at the head of the queue waits until the blocks of the
whole prompt fit, and everybody behind waits with it. When a decoding sequence finds no block, the youngest running
one is preempted: it loses its blocks, goes to the head of the queue and recomputes. Whoever finds blocks of its prompt
below HBM steps aside until they are loaded, and then goes before the queue.

Time moves only in `advance(now)` and in the calls that bring news. What happens has its own stamp: a step ends when
it ends, however late the driver asks, so a slow driver delays the telling and never the model. Composition changes
only between steps; while it stays the same, many steps are taken in one leap (enginemodel/steps.py).

News must come in the order of their stamps; one that is older than what is already computed counts from then on.
"""

from collections.abc import Callable
from math import inf

from vicinal.enginemodel.batch import Batcher
from vicinal.enginemodel.holds import Hold, Holds
from vicinal.enginemodel.loads import Loads
from vicinal.enginemodel.memory import Memory
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.sequence import Phase, Sequence
from vicinal.enginemodel.spec import Counters, EngineSpec, WorkTooLargeError
from vicinal.enginemodel.steps import Step, soonest_end
from vicinal.enginemodel.work import Finished, Generated, Output, PullWanted, Work

Watch = Callable[[Step, int, float], None]


class Engine:
    """One engine. Ids of works must be unique among those that it has not finished.

    `noise` scatters the durations of its steps (enginemodel/noise.py); without it they are what the timing says.
    `watch` is told of every stretch of equal steps when it ends, before anything of it counts: the first step, how many
    there were, and when the last one ended.
    """

    def __init__(self, spec: EngineSpec, noise: Noise | None = None, watch: Watch | None = None) -> None:
        self.spec = spec
        self.counters = Counters()
        self._outputs: list[Output] = []
        self.memory = Memory(spec, self.counters, self._outputs)
        self.holds = Holds(spec.lease_s)
        self.loads = Loads(spec.below)
        self._all: dict[str, Sequence] = {}
        self._batcher = Batcher(spec, self.memory, self.counters, noise)
        self._watch = watch
        self._step: Step | None = None
        self._ends_s = inf
        self._milestone_s: float | None = None
        self._now_s = 0.0
        self._news = False

    @property
    def waiting(self) -> int:
        """Sequences that are not in the batch: queued, pulling or loading, or done with it and about to join."""
        return len(self._all) - self.running

    @property
    def deferred(self) -> int:
        """Those of them whose KV is on its way here, from another engine or from a tier below HBM."""
        return sum(1 for s in self._all.values() if s.phase is Phase.PULLING or s.phase is Phase.LOADING)

    @property
    def running(self) -> int:
        return len(self._batcher.running)

    @property
    def idle(self) -> bool:
        """True when nothing is queued, running or held: then no block may be in use."""
        return not self._all and not len(self.holds)

    def submit(self, work: Work, now: float) -> None:
        """Queue a work at `now`. Raises WorkTooLargeError when it could never fit, ValueError for malformed work."""
        if work.id in self._all:
            raise ValueError(f"work {work.id} is in this engine already")
        content = work.content
        if not content.prompt_tokens or not content.output_tokens:
            raise ValueError(f"work {work.id} needs at least one prompt token and one output token")
        tokens = content.prompt_tokens + content.output_tokens
        if tokens > self.spec.tokens:
            raise WorkTooLargeError(work.id, tokens, self.spec.tokens)
        self._run(now)
        sequence = Sequence(work, self.spec.block_tokens, self._now_s)
        self._all[work.id] = sequence
        self._batcher.waiting.append(sequence)
        self._wake()

    def pulled(self, work_id: str, now: float) -> None:
        """The transfer that PullWanted asked for is over: the work joins the batch at the next step."""
        self._run(now)
        sequence = self._all[work_id]
        if sequence.phase is not Phase.PULLING:
            raise ValueError(f"work {work_id} is {sequence.phase.value}, not pulling")
        sequence.phase = Phase.READY
        sequence.computed = sequence.prompt_tokens
        self.counters.external_hits_tokens += sequence.pulled_tokens
        self.memory.seal(sequence, self._now_s)
        self._batcher.ready.append(sequence)
        self._wake()

    def cancel(self, work_id: str, now: float) -> None:
        """Drop a work wherever it is and free its blocks. Unknown ids are fine: it may just have finished."""
        self._run(now)
        sequence = self._all.pop(work_id, None)
        if sequence is None:
            return
        self._batcher.remove(sequence)
        self.memory.free(sequence)
        self._wake()

    def claim(self, work_id: str, now: float) -> Hold | None:
        """Somebody is going to pull what this work left: its lease no longer runs out. None when it is not there."""
        self._run(now)
        return self.holds.claim(work_id)

    def release(self, work_id: str, now: float) -> None:
        """What this work left has been pulled, or nobody wants it any more."""
        self._run(now)
        hold = self.holds.drop(work_id)
        if hold is not None:
            self.memory.pool.release(hold.blocks)
            self._wake()

    def reset_prefix_cache(self, now: float) -> bool:
        """Forget all blocks cached in HBM; refused (False) while any is in use. CacheCleared comes with the next step.

        The tiers below keep theirs, as vLLM's do unless it is told otherwise.
        """
        self._run(now)
        return self.memory.clear()

    def advance(self, now: float) -> list[Output]:
        """Everything that has happened up to `now` and was not reported yet, in order."""
        self._run(now)
        outputs = self._outputs[:]
        self._outputs.clear()
        return outputs

    def next_event_s(self) -> float | None:
        """When something happens next without news: a step or a read ends, or a lease runs out."""
        next_s = min(self._ends_s, self.holds.next_expiry_s, self.loads.next_s)
        return None if next_s == inf else next_s

    def next_milestone_s(self) -> float | None:
        """When a work gets its first or last token next, as far as can be known now, a read ends or a lease runs out.

        It may turn out later (a preemption), never earlier without news.
        """
        step = self._step
        if step is None or step.chunks or self._news:
            return self.next_event_s()
        if self._milestone_s is None:
            # It stays true until the step ends or news come, however often somebody asks.
            decodes = [s for s in step.decodes if s.phase is Phase.DECODING]
            if not decodes or any(not s.generated for s in decodes):
                return self.next_event_s()
            self._milestone_s = step.ends_after_s(soonest_end(decodes))
        return min(self._milestone_s, self.holds.next_expiry_s, self.loads.next_s)

    def _run(self, now: float) -> None:
        holds, loads = self.holds, self.loads
        while True:
            due_s = holds.next_expiry_s
            if loads.next_s < due_s:
                due_s = loads.next_s
            if due_s <= now and due_s < self._ends_s:
                self._now_s = max(self._now_s, due_s)
                self._expire()
                self._land()
                self._wake()
            elif self._step is not None and self._ends_s <= now:
                self._complete(self._step, now)
                self._begin()
            else:
                break
        self._now_s = max(self._now_s, now)

    def _wake(self) -> None:
        self._news = True
        if self._step is None:
            self._begin()

    def _begin(self) -> None:
        self._expire()
        if self.loads.next_s <= self._now_s:
            self._land()
        self._step = self._batcher.next_step(self._now_s, self._step)
        self._ends_s = inf if self._step is None else self._step.ends_s
        self._milestone_s = None
        self._news = not self._batcher.settled
        for sequence in self._batcher.take_deferred():
            if sequence.loading:
                sequence.load_s -= self._now_s
                self.loads.begin(sequence, self._now_s)
                continue
            missing = len(sequence.blocks) - sequence.sealed
            self._outputs.append(PullWanted(sequence.work.id, missing, sequence.pulled_tokens, self._now_s))

    def _complete(self, step: Step, now: float) -> None:
        decodes = [s for s in step.decodes if s.phase is Phase.DECODING]
        count = 1 if self._news or step.chunks or not decodes else self._leap(step, decodes, now)
        first_s = self._ends_s
        ends_s = first_s if count == 1 else step.ends_after_s(count)
        self._now_s = ends_s
        if self._watch is not None:
            self._watch(step, count, ends_s)
        self.memory.report_clear(ends_s)
        for sequence in decodes:
            self._generate(sequence, count, first_s, ends_s)
        for sequence, tokens in step.chunks:
            if sequence.phase is not Phase.PREFILLING:
                continue
            sequence.computed += tokens
            self.counters.computed_tokens += tokens
            self.memory.seal(sequence, ends_s)
            if sequence.computed == sequence.target:
                sequence.phase = Phase.DECODING
                self._generate(sequence, 1, ends_s, ends_s)

    def _leap(self, step: Step, decodes: list[Sequence], now: float) -> int:
        """How many steps of this batch can be taken at once; takes the blocks that they need."""
        # A lease that runs out gives blocks back, and whoever has loaded joins the batch, so a leap ends there.
        at_most = soonest_end(decodes)
        if self._batcher.waiting or self._batcher.loaded:
            # Who decides a step early knows early that a sequence will be gone by then, and looks at the queue again.
            at_most = max(1, at_most - self.spec.ahead)
        count = step.steps_until(min(now, self.holds.next_expiry_s, self.loads.next_s), at_most)
        while count > 1 and not self.memory.grow(decodes, count + self.spec.ahead, step.started_s):
            count //= 2
        return count

    def _generate(self, sequence: Sequence, count: int, first_s: float, last_s: float) -> None:
        if sequence.first_token_s is None:
            sequence.first_token_s = first_s
        generated = sequence.generated
        self._outputs.append(Generated(sequence.work.id, generated, count, first_s, last_s))
        sequence.generated = generated = generated + count
        sequence.computed = sequence.prompt_tokens + generated - 1
        self.counters.generated_tokens += count
        self.memory.seal(sequence, last_s)
        if generated == sequence.output_tokens:
            self._finish(sequence, last_s)

    def _finish(self, sequence: Sequence, at_s: float) -> None:
        if sequence.started_s is None or sequence.first_token_s is None:
            raise AssertionError(f"work {sequence.work.id} finishes without having started")
        work = sequence.work
        self._batcher.remove(sequence)
        del self._all[work.id]
        held: tuple[int, ...] | None = None
        if work.hold:
            held = tuple(sequence.blocks)
            self.holds.add(work.id, sequence.blocks, work.content, at_s)
        else:
            self.memory.free(sequence)
        self._outputs.append(
            Finished(
                id=work.id,
                arrived_s=sequence.arrived_s,
                started_s=sequence.started_s,
                first_token_s=sequence.first_token_s,
                finished_s=at_s,
                prompt_tokens=sequence.prompt_tokens,
                cached_tokens=sequence.cached_tokens,
                pulled_tokens=sequence.pulled_tokens,
                output_tokens=sequence.generated,
                preemptions=sequence.preemptions,
                held_blocks=held,
                loaded_tokens=sequence.loaded_tokens,
                load_s=sequence.load_s,
            )
        )

    def _land(self) -> None:
        """Whoever has loaded what it found below HBM by now goes on with the rest of its prompt."""
        for at_s, sequence in self.loads.finished(self._now_s):
            sequence.load_s += at_s
            sequence.phase = Phase.LOADED
            self.memory.report_clear(self._now_s)
            self.memory.loaded(sequence, self._now_s)
            self._batcher.loaded.append(sequence)

    def _expire(self) -> None:
        if self.holds.next_expiry_s > self._now_s:
            return
        for hold in self.holds.expired(self._now_s):
            self.memory.pool.release(hold.blocks)
            self.counters.leases_expired += 1
