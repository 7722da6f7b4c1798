"""One request, one decision: view -> filters -> table -> policy -> a `Decision`. Reserves nothing, changes nothing."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.contracts.policy import Choice, Policy
from vicinal.cost.model import CostModel
from vicinal.cost.pairs import Pair, cheapest
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.decision import Decision, InputAge, PricedPlan
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.request import Request
from vicinal.kvindex.hashing import coarse
from vicinal.kvindex.match import Match
from vicinal.scheduler.counterfactuals import counterfactuals
from vicinal.scheduler.filters import Filtered, filtered
from vicinal.scheduler.tracked import Tracked

OTHERS = 8


@dataclass(frozen=True, slots=True)
class Placed:
    """A choice that can be carried out. `compute_s` is the prefill's predicted compute where it will run."""

    decision: Decision
    prefill_slot: int
    decode_slot: int
    compute_s: float
    decode_bound: bool


class Cycle:
    """Decides with one policy on one state. `local_prefill` lets decode endpoints prefill for themselves."""

    def __init__(
        self, state: ClusterState, cost: CostModel, policy: Policy, chance: Stream, local_prefill: bool
    ) -> None:
        self._state = state
        self._cost = cost
        self._policy = policy
        self._chance = chance
        self._local_prefill = local_prefill

    def plan(self, tracked: Tracked, queue_length: int, now: float) -> Placed | Filtered:
        """Choose a plan, or say who was left out and why."""
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, self._local_prefill)
        if not out.can_serve:
            return out
        match = self._match(request)
        table = self._cost.table(request, view, match.expected, out.masks)
        return self._decide(tracked, Leg.PREFILL, table, match, out, queue_length, bound=None)

    def plan_decode(self, tracked: Tracked, queue_length: int, now: float) -> Placed | Filtered:
        """Choose again where to decode: the prefill is done. Full endpoints may be chosen, at the price of waiting."""
        assert tracked.plan is not None
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, local_allowed=False)
        roomy = self._with_full_ones(out)
        prefill_slot = self._state.slot(tracked.plan.prefill)
        if roomy.masks.decode_blocked.all() or prefill_slot is None:
            return out
        match = self._match(request)
        table = self._cost.decode_table(request, view, match.expected, roomy.masks, prefill_slot)
        if not table.serving.any():
            return out
        bound = tracked.plan.decode if tracked.decode_bound else None
        return self._decide(tracked, Leg.DECODE, table, match, roomy, queue_length, bound)

    def _match(self, request: Request) -> Match:
        return self._state.index.match(request.block_hashes, len(self._state.fleet))

    def _with_full_ones(self, out: Filtered) -> Filtered:
        """`out`, but when nobody has room, whoever would have it later."""
        if not out.masks.decode_blocked.all():
            return out
        return out.without_passing()

    def _decide(
        self,
        tracked: Tracked,
        leg: Leg,
        table: Table,
        match: Match,
        out: Filtered,
        queue_length: int,
        bound: EndpointId | None,
    ) -> Placed:
        request = tracked.request
        ranked = cheapest(table, OTHERS + 1, self._chance)
        choice = self._choose(request, table, ranked, bound)
        named = counterfactuals(table, ranked, choice.j, self._chance)
        chosen = Pair(table.total(choice.i, choice.j), choice.i, choice.j)
        others = [pair for pair in ranked if (pair.i, pair.j) != (choice.i, choice.j)][:OTHERS]
        rows = self._priced(table, [chosen, *others, *(pair for _, pair in named)], request)
        prefill_slot, decode_slot = _slots(table, choice.i, choice.j)
        leg = Leg.WHOLE if choice.i == table.local_row else leg
        view = table.view
        decision = Decision(
            request_id=request.id,
            attempt=tracked.attempt,
            leg=leg,
            at_s=view.now_s,
            arrived_s=tracked.arrived_s,
            model_id=request.model,
            tenant_id=request.tenant,
            priority=request.priority,
            policy=self._policy.name,
            service=request.service.name,
            prompt_tokens=request.prompt_tokens,
            expected_output_tokens=request.expected_output_tokens,
            block_tokens=request.block_tokens,
            chosen=rows[choice.i, choice.j],
            others=tuple(rows[pair.i, pair.j] for pair in others),
            counterfactuals=tuple((name, rows[pair.i, pair.j]) for name, pair in named),
            pairs_considered=int(np.count_nonzero(table.usable)) + int(np.count_nonzero(~table.decode.local_blocked)),
            verdicts=out.verdicts(),
            inputs=self._inputs(view, prefill_slot, decode_slot),
            prefill_price_s_per_s=self._cost.price.seconds_per_second,
            queue_length=queue_length,
            worker_queue_length=float(view.prefill_count[prefill_slot] + view.foreign_requests[prefill_slot]),
            gpu_hbm_available_tokens=int(
                max(view.free_blocks[decode_slot], 0.0) * view.fleet.block_tokens[decode_slot]
            ),
            cache_location=self._holder(match.expected),
            cache_state=_cache_state(match, prefill_slot),
            reason=choice.reason,
            coarse_hashes=coarse(request.block_hashes, request.block_tokens) if leg is not Leg.DECODE else (),
        )
        compute_s = table.decode.local_compute_s[choice.j] if leg is Leg.WHOLE else table.prefill.compute_s[choice.i]
        return Placed(decision, prefill_slot, decode_slot, float(compute_s), choice.decode_bound)

    def _choose(self, request: Request, table: Table, ranked: list[Pair], bound: EndpointId | None) -> Choice:
        usable = table.usable
        if not table.serving.any():
            return Choice(ranked[0].i, ranked[0].j, "only local plans can serve: the cheapest of them")
        if bound is not None:
            slot = self._state.slot(bound)
            columns = np.flatnonzero((table.decode.slots == slot) & usable[0])
            if len(columns):
                return Choice(0, int(columns[0]), "decode stays where it was bound at arrival", decode_bound=True)
        return self._policy.choose(request, table, ranked, self._chance)

    def _priced(self, table: Table, wanted: list[Pair], request: Request) -> dict[tuple[int, int], PricedPlan]:
        """Each wanted row once, by position."""
        pairs = list({(pair.i, pair.j): pair for pair in wanted}.values())
        i = np.array([pair.i for pair in pairs], dtype=np.intp)
        j = np.array([pair.j for pair in pairs], dtype=np.intp)
        held = table.decode.held_tokens[j].tolist()
        decode_slots = table.decode.slots[j].tolist()
        # The local row has no prefill endpoint of its own: position 0 stands in and is replaced below.
        local = i == table.local_row
        rows = np.where(local, 0, i)
        no_rows = table.local_row == 0
        prefill_slots = decode_slots if no_rows else np.where(local, decode_slots, table.prefill.slots[rows]).tolist()
        cached = held if no_rows else np.where(local, held, table.prefill.cached_tokens[rows]).tolist()
        endpoints = self._state.fleet.endpoints
        return {
            (pair.i, pair.j): PricedPlan(
                Plan(
                    endpoints[prefill].id,
                    endpoints[decode].id,
                    Action.HIT if reused else Action.RECOMPUTE,
                    int(reused),
                    int(there),
                    0 if prefill == decode else request.prompt_tokens - int(there),
                ),
                pair.total_s,
                terms,
            )
            for pair, terms, prefill, decode, reused, there in zip(
                pairs, table.terms(i, j), prefill_slots, decode_slots, cached, held, strict=True
            )
        }

    def _inputs(self, view: View, prefill_slot: int, decode_slot: int) -> tuple[InputAge, ...]:
        events_s = self._state.events_s
        return (
            InputAge("ledger", "own dispatches", 0.0),
            InputAge("prefill_report", "engine metrics", _age(view.report_age_s[prefill_slot])),
            InputAge("decode_report", "engine metrics", _age(view.report_age_s[decode_slot])),
            InputAge("prefill_blocks", "engine events", _age(view.now_s - events_s[prefill_slot])),
            InputAge("decode_blocks", "engine events", _age(view.now_s - events_s[decode_slot])),
        )

    def _holder(self, blocks: NDArray[np.int32]) -> EndpointId | None:
        """Who holds the longest prefix of the prompt, if anybody holds any."""
        if not len(blocks) or not blocks.any():
            return None
        return self._state.fleet.endpoints[int(blocks.argmax())].id


def _slots(table: Table, i: int, j: int) -> tuple[int, int]:
    decode_slot = int(table.decode.slots[j])
    return (decode_slot if i == table.local_row else int(table.prefill.slots[i])), decode_slot


def _age(age_s: float) -> float | None:
    """None is Unknown: it never came."""
    return float(age_s) if np.isfinite(age_s) else None


def _cache_state(match: Match, slot: int) -> str:
    """What the prefilling endpoint has of the prompt: blocks that are ready, blocks on their way, or none."""
    if match.ready[slot] == match.expected[slot]:
        return "ready" if match.ready[slot] else "absent"
    return "filling"
