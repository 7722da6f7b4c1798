"""What each step of a request's life reserves and releases, and what is learned when it is over."""

from collections.abc import Collection, Sequence

from vicinal.cluster.ledger import DecodeWork, PrefillWork, Transfer
from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel, blocks_needed
from vicinal.domain.effects import Warn
from vicinal.domain.plan import Leg
from vicinal.domain.request import HASH_BYTES
from vicinal.scheduler.cycle import Placed
from vicinal.scheduler.observing import prefill_s, term
from vicinal.scheduler.tenancy import Tenancy
from vicinal.scheduler.tracked import Leased, Tracked

MEAN_GAIN = 0.05


class Reservations:
    """Keeps ledger and index in step with the requests. Releasing is idempotent."""

    def __init__(self, state: ClusterState, cost: CostModel, tenancy: Tenancy) -> None:
        self._state = state
        self._cost = cost
        self._tenancy = tenancy

    def plan(self, tracked: Tracked, placed: Placed, now: float) -> None:
        """A plan was chosen: its prefill is queued, its decode pencilled, its blocks are on their way. Where both legs
        leave together decode is bound: HBM is taken there, and the flow counts from now on, because the KV is sent
        piece by piece while it is computed."""
        request, plan = tracked.request, placed.decision.chosen.plan
        state, slot = self._state, placed.prefill_slot
        self._cost.sent_off(placed.pool_wait_s, placed.compute_s, now)
        state.mean_prefill_s = self._cost.price.mean_service_s
        state.mean_context_tokens += MEAN_GAIN * (request.prompt_tokens - state.mean_context_tokens)
        new_tokens = request.prompt_tokens - plan.cached_tokens
        self._tenancy.reserves.begin(request)
        state.ledger.open_prefill(tracked.id, PrefillWork(slot, placed.compute_s, new_tokens), now)
        if placed.concurrent:
            self._bind(tracked, placed)
        else:
            state.ledger.pencil_decode(tracked.id, self._decode_work(tracked, placed.decode_slot))
        tokens_there = None if plan.local else request.prompt_tokens
        self._hold_blocks(tracked, slot, tokens_there)
        self._tenancy.holds(tracked.id, now)
        self._tenancy.expect(slot, request, now)
        tracked.expected.append(slot)
        if request.copy_to is not None:
            blocks = state.index.lease(slot, request.block_hashes)
            tracked.leased = Leased(slot, request.block_hashes[: blocks * HASH_BYTES])

    def prefill_done(self, tracked: Tracked, now: float) -> None:
        """The prefill is over, and where to decode is open again: the pencil mark would count against its own place."""
        self._state.ledger.close_prefill(tracked.id, now)
        self._state.ledger.rub_out_decode(tracked.id)
        self._tenancy.quotas.loaded(tracked.id, now)
        self.computed(tracked, now)
        predicted_s = prefill_s(tracked.decision)
        if predicted_s is not None and tracked.dispatched_s is not None:
            self._cost.lag.observe(predicted_s, now - tracked.dispatched_s)

    def hand_off(self, tracked: Tracked, placed: Placed, now: float) -> None:
        """Decode is bound: HBM is taken there, and the KV travels."""
        state, decision, kv_bytes = self._state, placed.decision, self._kv_bytes(placed)
        path = state.topology.path(placed.prefill_slot, placed.decode_slot)
        slowest = max(
            ((1 + state.ledger.link_flows[link]) / state.topology.bytes_per_s[link] for link in path.links), default=0.0
        )
        tracked.transfer_promise_s = path.latency_s + kv_bytes * float(slowest)
        tracked.expected_start_s = now + (term(decision, "decode_ready") or 0.0)
        tracked.expected_step_s = term(decision, "first_step") or 0.0
        self._bind(tracked, placed)
        self._tenancy.holds(tracked.id, now)

    def prefill_leg_over(self, tracked: Tracked, now: float) -> None:
        """The prefill leg of a concurrent hand-off answered. How long it took says nothing of its queue alone: some
        engines answer when the KV is gone."""
        self._state.ledger.close_prefill(tracked.id, now)

    def first_token(self, tracked: Tracked, now: float) -> Warn | None:
        """The transfer, if any, is over. Returns a warning when its class of path has become alarmingly slow."""
        state = self._state
        transfer = self.begin_decode(tracked, now)
        if transfer is None or tracked.transfer_promise_s is None:
            return None
        level = state.topology.path(transfer.source, transfer.target).level
        seen_s = now - tracked.expected_start_s - tracked.expected_step_s
        factor = self._cost.speeds.observe(level, tracked.transfer_promise_s, seen_s, now, self._cost.lag.seconds)
        if factor is None:
            return None
        source, target = (state.fleet.endpoints[slot].id for slot in (transfer.source, transfer.target))
        text = (
            f"transfers at level {level.label} take {factor:.1f} times what their links promise "
            f"(last: {source} to {target}, {seen_s * 1e3:.0f} ms): has RDMA fallen back to TCP?"
        )
        return Warn("slow_path", target, text)

    def begin_decode(self, tracked: Tracked, now: float) -> Transfer | None:
        """The first token is there, or is taken to be: the prefill of a whole leg, or the transfer, is over."""
        self.computed(tracked, now)
        self._tenancy.quotas.loaded(tracked.id, now)
        ledger = self._state.ledger
        if tracked.leg is Leg.WHOLE:
            ledger.close_prefill(tracked.id, now)
            work = ledger.rub_out_decode(tracked.id)
            if work is not None:
                ledger.open_decode(tracked.id, work)
            return None
        ledger.close_prefill(tracked.id, now)  # of a concurrent hand-off whose prefill leg is late to answer
        transfer = ledger.end_transfer(tracked.id)
        if transfer is not None:
            ledger.free_blocks(tracked.id, transfer.source)
            self._tenancy.holds(tracked.id, now)
        return transfer

    def computed(self, tracked: Tracked, now: float) -> None:
        """The prompt is where it was expected."""
        for slot in tracked.expected:
            self._state.computed(slot, tracked.request, now)

    def release(self, tracked: Tracked, now: float) -> None:
        self._state.ledger.release(tracked.id, now)
        self._tenancy.holds(tracked.id, now)
        self._unexpect(tracked, tracked.expected)
        self._unlease(tracked)

    def abandon(self, tracked: Tracked, left: Collection[int], now: float) -> None:
        """The endpoints of these slots left the fleet: what is reserved on them stands in nobody's way any more, and
        a newcomer that has such a slot must not be taken for as busy, or as well filled, as they were."""
        ledger, owner = self._state.ledger, tracked.id
        if (prefill := ledger.prefills.get(owner)) is not None and prefill.slot in left:
            ledger.close_prefill(owner, now)
        if (pencilled := ledger.pencilled.get(owner)) is not None and pencilled.slot in left:
            ledger.rub_out_decode(owner)
        if (decode := ledger.decodes.get(owner)) is not None and decode.slot in left:
            ledger.close_decode(owner)
        transfer = ledger.transfers.get(owner)
        if transfer is not None and (transfer.source in left or transfer.target in left):
            ledger.end_transfer(owner)
        for slot in ledger.slots_held(owner):
            if slot in left:
                ledger.free_blocks(owner, slot)
        self._tenancy.holds(owner, now)
        self._unexpect(tracked, [slot for slot in tracked.expected if slot in left])
        if tracked.leased is not None and tracked.leased.slot in left:
            self._unlease(tracked)

    def _bind(self, tracked: Tracked, placed: Placed) -> None:
        state, slot = self._state, placed.decode_slot
        state.ledger.open_decode(tracked.id, self._decode_work(tracked, slot))
        self._hold_blocks(tracked, slot, None)
        state.index.expect(slot, tracked.request.block_hashes)
        tracked.expected.append(slot)
        state.start_transfer(tracked.id, placed.prefill_slot, slot, self._kv_bytes(placed))

    def _kv_bytes(self, placed: Placed) -> float:
        per_token = self._state.fleet.endpoints[placed.decode_slot].kv_bytes_per_token
        return placed.decision.chosen.plan.moved_tokens * per_token

    def _decode_work(self, tracked: Tracked, slot: int) -> DecodeWork:
        request = tracked.request
        return DecodeWork(
            slot,
            request.prompt_tokens + request.expected_output_tokens / 2,
            request.prompt_tokens + request.expected_output_tokens,
        )

    def _hold_blocks(self, tracked: Tracked, slot: int, tokens: int | None) -> None:
        """Take HBM for the prompt's `tokens`, or for the whole request when None."""
        block_tokens = self._state.fleet.endpoints[slot].block_tokens
        whole = blocks_needed(tracked.request, block_tokens)
        self._state.ledger.hold_blocks(tracked.id, slot, whole if tokens is None else -(-tokens // block_tokens))

    def _unexpect(self, tracked: Tracked, slots: Sequence[int]) -> None:
        for slot in tuple(slots):
            self._state.index.unexpect(slot, tracked.request.block_hashes)
            tracked.expected.remove(slot)

    def _unlease(self, tracked: Tracked) -> None:
        if tracked.leased is not None:
            self._state.index.release(tracked.leased.slot, tracked.leased.hashes)
            tracked.leased = None
