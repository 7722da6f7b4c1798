"""Predicted against actual reuse, for every request: the loudest sign of lost KV awareness (docs/self-check.md).

The prefill leg's engine says how many prompt tokens it reused. A figure other than the predicted one has a cause, which
follows from what the index knew at the decision and what it heard since. And every few heartbeats a finished prompt is
looked for in what its engine says it stored: tokens that differ from the engine's show there first.
"""

from collections.abc import Collection, Iterable, Mapping

from vicinal.cluster.state import ClusterState
from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Plan
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import HASH_BYTES
from vicinal.domain.reuse import Reuse
from vicinal.scheduler.pulls import Pulls
from vicinal.scheduler.secondlooks import SecondLooks, lost, ready
from vicinal.scheduler.suspicions import Suspicion, Suspicions
from vicinal.scheduler.tracked import Promise, Tracked


class SelfCheck:
    """Compares, explains, and suspects. Reads the state and changes nothing in it."""

    def __init__(self, state: ClusterState) -> None:
        self.suspicions = Suspicions()
        self.pulls = Pulls()
        self._state = state
        self._later = SecondLooks(state, self.suspicions)

    @property
    def counts(self) -> Mapping[str, int]:
        """What became of reuse that was unexplained when its request was over (secondlooks.py)."""
        return self._later.counts

    def promise(self, tracked: Tracked, slot: int, ready_blocks: int) -> None:
        """The request's new plan prefills in `slot`, where so many blocks of the prompt are ready now."""
        assert tracked.plan is not None
        mark = self._state.engine_blocks.losses.mark(slot)
        plan = tracked.plan
        tracked.promise = Promise(slot, ready_blocks, plan.cached_tokens, plan.loaded_tokens, mark)

    def looked_up(self, tracked: Tracked) -> None:
        """The engine is past looking for the prompt: what it loses from now on explains nothing."""
        promise = tracked.promise
        if promise is not None and promise.losses_to is None:
            promise.losses_to = self._state.engine_blocks.losses.mark(promise.slot)

    def compare(self, tracked: Tracked, *, usage_asked: bool = True) -> list[Warn]:
        """The leg that prefills has answered: `tracked.cached_tokens` is the engine's word. Sets `tracked.reuse`."""
        promise = tracked.promise
        if promise is None:
            return []
        self.looked_up(tracked)
        if tracked.cached_tokens is None and not usage_asked:
            tracked.reuse = Reuse.NOT_ASKED
            return []
        tracked.reuse = self._cause(tracked, promise)
        return self._suspect(tracked, promise)

    def over(self, tracked: Tracked, now: float) -> None:
        """The request is done. A last look for events that were late, and perhaps another one some heartbeats on.

        A removal that is heard before the block is stored anew happened before the engine looked, however late the news
        is: an engine that has a block reuses it. One that comes after that leaves a copy, and is no loss.
        """
        promise = tracked.promise
        if promise is None or tracked.reuse is None:
            return
        if tracked.reuse is Reuse.LATE_EVENTS and not self._knows_reused(tracked, promise):
            tracked.reuse = Reuse.UNEXPLAINED
        hashes, slot = tracked.request.block_hashes, promise.slot
        reused = tracked.cached_tokens or 0
        if tracked.reuse is Reuse.UNEXPLAINED and reused < promise.cached_tokens:
            block = reused // tracked.request.block_tokens
            if lost(self._state, slot, hashes, block, promise.losses_from):
                tracked.reuse = Reuse.EVICTED_MEANWHILE
            else:
                self._later.missing(slot, hashes, block, promise.losses_from, now)
        if hashes and not self._state.infers(slot, tracked.request):
            decided_s = tracked.dispatched_s if tracked.dispatched_s is not None else now
            self._later.prompt(slot, hashes, promise.losses_from, decided_s, now)

    def pull_began(self, tracked: Tracked, plan: Plan) -> None:
        """A decode leg of this plan goes off."""
        tracked.pulling = plan
        self.pulls.sent(plan.decode, plan.moved_tokens, plan.held_tokens)

    def pull_ended(self, tracked: Tracked) -> None:
        """It has its first token, or will have none. Does nothing when no decode leg is under way."""
        if tracked.pulling is not None:
            self.pulls.arrived(tracked.pulling.decode, tracked.pulling.moved_tokens)
            tracked.pulling = None

    def reported(self, slot: int, report: EndpointReport, now: float) -> list[Warn]:
        """An engine's report came: a heartbeat has passed there."""
        return [*self._check_pulls(slot, report), *self._later.due(slot, report.endpoint, now)]

    def abandon(self, tracked: Tracked, left: Collection[int]) -> None:
        """The endpoints of these slots left: what the request was promised there is nobody's word any more."""
        if tracked.promise is not None and tracked.promise.slot in left:
            tracked.promise = None

    def forget(self, slots: Iterable[int], endpoints: Iterable[EndpointId]) -> None:
        """These left the fleet."""
        for slot in slots:
            self._later.forget(slot)
        for endpoint in endpoints:
            self.suspicions.forget(endpoint)
            self.pulls.forget(endpoint)

    def _cause(self, tracked: Tracked, promise: Promise) -> Reuse:
        reused, request = tracked.cached_tokens, tracked.request
        if reused is None:
            return Reuse.ENGINE_SILENT
        if reused == promise.cached_tokens:
            return Reuse.EXACT
        if self._state.infers(promise.slot, request):
            return Reuse.INFERRED
        if reused > promise.cached_tokens:
            return Reuse.STORED_MEANWHILE if self._knows_reused(tracked, promise) else Reuse.LATE_EVENTS
        block = reused // request.block_tokens
        if reused >= promise.cached_tokens - promise.loaded_tokens:
            return Reuse.NOT_LOADED
        if block >= promise.ready_blocks:
            return Reuse.EXPECTED_NOT_MADE
        hashes, start, stop = request.block_hashes, promise.losses_from, promise.losses_to
        explained = lost(self._state, promise.slot, hashes, block, start, stop)
        return Reuse.EVICTED_MEANWHILE if explained else Reuse.UNEXPLAINED

    def _suspect(self, tracked: Tracked, promise: Promise) -> list[Warn]:
        """What this one comparison speaks for and against."""
        endpoint = self._state.fleet.endpoints[promise.slot]
        reused = tracked.cached_tokens
        add = self.suspicions.add
        found: list[Warn] = []
        if promise.cached_tokens or reused is not None:  # silence where nothing was expected may mean zero
            found += add(endpoint.id, Suspicion.ENGINE_SILENT, reused is None)
        if reused is None:
            return found
        if endpoint.dialect == "vllm" and reused:
            odd = bool(reused % endpoint.block_tokens)
            found += add(endpoint.id, Suspicion.BLOCK_SIZE, odd, reused)
        if tracked.request.inferred_only:
            return found
        if promise.ready_blocks and not self._state.sends_events(promise.slot):
            found += add(endpoint.id, Suspicion.NO_REUSE, not reused)
        elif promise.ready_blocks and tracked.reuse is Reuse.EXACT:
            found += add(endpoint.id, Suspicion.REMOVALS_UNHEARD, False)
        return found

    def _check_pulls(self, slot: int, report: EndpointReport) -> list[Warn]:
        endpoint = self._state.fleet.endpoints[slot]
        verdict = self.pulls.reported(report)
        if verdict is None or endpoint.host_blocks or endpoint.ssd_blocks:  # what it loads counts as pulled
            return []
        return self.suspicions.add(report.endpoint, Suspicion.DECODE_PULLS_MORE, verdict.more, f"{verdict.excess:.0f}")

    def _knows_reused(self, tracked: Tracked, promise: Promise) -> bool:
        """By now the index knows of all that the engine reused."""
        blocks = (tracked.cached_tokens or 0) // tracked.request.block_tokens
        return ready(self._state, promise.slot, tracked.request.block_hashes[: blocks * HASH_BYTES]) >= blocks
