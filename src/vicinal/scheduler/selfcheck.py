"""Predicted against actual reuse, for every request: the loudest sign of lost KV awareness (docs/self-check.md).

The prefill leg's engine says how many prompt tokens it reused. A figure other than the predicted one has a cause, which
follows from what the index knew at the decision and what it heard since. And once per endpoint and heartbeat a finished
prompt is looked for in what the engine says it stored: tokens that differ from the engine's show there first.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from vicinal.cluster.state import ClusterState
from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Plan
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import HASH_BYTES
from vicinal.domain.reuse import Reuse
from vicinal.scheduler.pulls import Pulls
from vicinal.scheduler.suspicions import Suspicion, Suspicions
from vicinal.scheduler.tracked import Promise, Tracked


@dataclass(frozen=True, slots=True)
class _Probe:
    """A prompt that was computed in `slot`; it is looked for when its events have had time to come."""

    hashes: bytes
    losses_from: int
    decided_s: float
    over_s: float


class SelfCheck:
    """Compares, explains, and suspects. Reads the state and changes nothing in it."""

    def __init__(self, state: ClusterState) -> None:
        self.suspicions = Suspicions()
        self.pulls = Pulls()
        self._state = state
        self._probes: dict[int, _Probe] = {}

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

    def compare(self, tracked: Tracked) -> list[Warn]:
        """The leg that prefills has answered: `tracked.cached_tokens` is the engine's word. Sets `tracked.reuse`."""
        promise = tracked.promise
        if promise is None:
            return []
        self.looked_up(tracked)
        tracked.reuse = self._cause(tracked, promise)
        return self._suspect(tracked, promise)

    def over(self, tracked: Tracked, now: float) -> None:
        """The request is done. A last look for events that were late; its prompt may be the endpoint's next probe.

        A removal that is heard before the block is stored anew happened before the engine looked, however late the news
        is: an engine that has a block reuses it. One that comes after that leaves a copy, and is no loss.
        """
        promise = tracked.promise
        if promise is None or tracked.reuse is None:
            return
        if tracked.reuse is Reuse.LATE_EVENTS and not self._knows_reused(tracked, promise):
            tracked.reuse = Reuse.UNEXPLAINED
        elif tracked.reuse is Reuse.UNEXPLAINED and self._lost_since(tracked, promise):
            tracked.reuse = Reuse.EVICTED_MEANWHILE
        hashes = b"" if tracked.request.inferred_only else tracked.request.block_hashes
        if hashes and promise.slot not in self._probes and self._sends_events(promise.slot):
            decided_s = tracked.dispatched_s if tracked.dispatched_s is not None else now
            self._probes[promise.slot] = _Probe(hashes, promise.losses_from, decided_s, now)

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
        found = self._check_pulls(slot, report)
        probe = self._probes.get(slot)
        if probe is not None and now - probe.over_s >= self._state.freshness.heartbeat_s:
            del self._probes[slot]
            found += self._look_for(slot, report.endpoint, probe)
        return found

    def abandon(self, tracked: Tracked, left: Collection[int]) -> None:
        """The endpoints of these slots left: what the request was promised there is nobody's word any more."""
        if tracked.promise is not None and tracked.promise.slot in left:
            tracked.promise = None

    def forget(self, slots: Iterable[int], endpoints: Iterable[EndpointId]) -> None:
        """These left the fleet."""
        for slot in slots:
            self._probes.pop(slot, None)
        for endpoint in endpoints:
            self.suspicions.forget(endpoint)
            self.pulls.forget(endpoint)

    def _cause(self, tracked: Tracked, promise: Promise) -> Reuse:
        reused, request = tracked.cached_tokens, tracked.request
        if reused is None:
            return Reuse.ENGINE_SILENT
        if reused == promise.cached_tokens:
            return Reuse.EXACT
        if request.inferred_only or not self._sends_events(promise.slot):
            return Reuse.INFERRED
        if reused > promise.cached_tokens:
            return Reuse.STORED_MEANWHILE if self._knows_reused(tracked, promise) else Reuse.LATE_EVENTS
        block = reused // request.block_tokens
        if reused >= promise.cached_tokens - promise.loaded_tokens:
            return Reuse.NOT_LOADED
        if block >= promise.ready_blocks:
            return Reuse.EXPECTED_NOT_MADE
        return Reuse.EVICTED_MEANWHILE if self._lost(tracked, promise, block) else Reuse.UNEXPLAINED

    def _suspect(self, tracked: Tracked, promise: Promise) -> list[Warn]:
        """What this one comparison speaks for and against."""
        endpoint = self._state.fleet.endpoints[promise.slot]
        reused, cause = tracked.cached_tokens, tracked.reuse
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
        if promise.ready_blocks and not self._sends_events(promise.slot):
            found += add(endpoint.id, Suspicion.NO_REUSE, not reused)
        elif promise.ready_blocks and cause in (Reuse.EXACT, Reuse.UNEXPLAINED):
            found += add(endpoint.id, Suspicion.REMOVALS_UNHEARD, cause is Reuse.UNEXPLAINED)
        return found

    def _look_for(self, slot: int, endpoint: EndpointId, probe: _Probe) -> list[Warn]:
        """How far the engine stored the prompt under our hashes."""
        blocks = len(probe.hashes) // HASH_BYTES
        landed = self._ready(slot, probe.hashes)
        heard = bool(self._state.events_s[slot] >= probe.decided_s)
        if landed < blocks and self._lost_block(slot, probe.hashes, landed, probe.losses_from, None):
            return []
        add = self.suspicions.add
        found = add(endpoint, Suspicion.NO_BLOCK_EVENTS, not heard and landed < blocks)
        if heard:
            found += add(endpoint, Suspicion.TOKENS_DIFFER_AT_START, landed == 0)
            found += add(endpoint, Suspicion.TOKENS_DIFFER_LATER, 0 < landed < blocks, landed)
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
        return self._ready(promise.slot, tracked.request.block_hashes[: blocks * HASH_BYTES]) >= blocks

    def _ready(self, slot: int, hashes: bytes) -> int:
        return self._state.index.match(hashes, len(self._state.fleet)).ready_at(slot)

    def _lost(self, tracked: Tracked, promise: Promise, block: int) -> bool:
        hashes = tracked.request.block_hashes
        return self._lost_block(promise.slot, hashes, block, promise.losses_from, promise.losses_to)

    def _lost_since(self, tracked: Tracked, promise: Promise) -> bool:
        block = (tracked.cached_tokens or 0) // tracked.request.block_tokens
        return self._lost_block(promise.slot, tracked.request.block_hashes, block, promise.losses_from, None)

    def _lost_block(self, slot: int, hashes: bytes, at: int, start: int, stop: int | None) -> bool:
        name = int.from_bytes(hashes[at * HASH_BYTES : (at + 1) * HASH_BYTES], "little")
        return self._state.engine_blocks.losses.between(slot, name, start, stop)

    def _sends_events(self, slot: int) -> bool:
        return self._state.sends_events(slot)
