"""One request, one decision: view -> filters -> table -> policy -> a `Decision`. Reserves nothing, changes nothing."""

from math import isinf

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.contracts.policy import Choice, Policy
from vicinal.cost.model import CostModel
from vicinal.cost.pairs import Pair, cheapest
from vicinal.cost.table import Explained, Table
from vicinal.domain.chance import Stream
from vicinal.domain.decision import Decision, InputAge, PricedPlan
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.request import Request
from vicinal.kvindex.hashing import coarse
from vicinal.kvindex.match import Match
from vicinal.scheduler.counterfactuals import Place, counterfactuals
from vicinal.scheduler.filters import Filtered, filtered
from vicinal.scheduler.tracked import Tracked

OTHERS = 8


class Chosen(Struct, frozen=True):
    """A choice, and what it was made from. `ranked` are the cheapest rows of the table."""

    leg: Leg
    table: Table
    match: Match
    out: Filtered
    ranked: list[Pair]
    choice: Choice


class Placed(Struct, frozen=True):
    """A choice that can be carried out. `compute_s` is the prefill's predicted compute where it will run, `view`
    what the choice was made from."""

    decision: Decision
    prefill_slot: int
    decode_slot: int
    compute_s: float
    view: View
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
        """Choose a plan and write down why, or say who was left out and why."""
        chosen = self.choose(tracked, now)
        return chosen if isinstance(chosen, Filtered) else self._described(tracked, chosen, queue_length)

    def plan_decode(self, tracked: Tracked, queue_length: int, now: float) -> Placed | Filtered:
        """Likewise for where to decode, now that the prefill is done."""
        chosen = self._choose_decode(tracked, now)
        return chosen if isinstance(chosen, Filtered) else self._described(tracked, chosen, queue_length)

    def choose(self, tracked: Tracked, now: float) -> Chosen | Filtered:
        """The decision itself: view, filters, match, table, ranking, policy."""
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, self._local_prefill)
        if not out.can_serve:
            return out
        match = self._match(request)
        table = self._cost.table(request, view, match.expected, out.masks)
        ranked = cheapest(table, OTHERS + 1, self._chance)
        choice = self._policy_choice(request, table, ranked, bound=None)
        leg = Leg.WHOLE if choice.i == table.local_row else Leg.PREFILL
        return Chosen(leg, table, match, out, ranked, choice)

    def _choose_decode(self, tracked: Tracked, now: float) -> Chosen | Filtered:
        """Full endpoints may be chosen, at the price of waiting."""
        assert tracked.plan is not None
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, local_allowed=False)
        prefill_slot = self._state.slot(tracked.plan.prefill)
        if prefill_slot is None or prefill_slot not in tracked.expected:
            return out  # the endpoint left, and its KV with it, even if one of that name is back
        roomy = _with_full_ones(out, prefill_slot)
        match = self._match(request)
        table = self._cost.decode_table(request, view, match.expected, roomy.masks, prefill_slot)
        if not np.count_nonzero(table.serving):
            return out
        bound = tracked.plan.decode if tracked.decode_bound else None
        ranked = cheapest(table, OTHERS + 1, self._chance)
        choice = self._policy_choice(request, table, ranked, bound)
        return Chosen(Leg.DECODE, table, match, roomy, ranked, choice)

    def _match(self, request: Request) -> Match:
        return self._state.index.match(request.block_hashes, len(self._state.fleet))

    def _described(self, tracked: Tracked, made: Chosen, queue_length: int) -> Placed:
        """The choice with all that its record says: the losers, the named alternatives, the inputs and their age."""
        request = tracked.request
        leg, table, match, ranked, choice = made.leg, made.table, made.match, made.ranked, made.choice
        chosen = (choice.i, choice.j)
        named = counterfactuals(table, ranked, choice.j, self._chance)
        others = [place for pair in ranked if (place := (pair.i, pair.j)) != chosen][:OTHERS]
        rows = self._priced(table, [chosen, *others, *(place for _, place in named)], request)
        prefill_slot, decode_slot = _slots(table, choice.i, choice.j)
        view = table.view
        decision = Decision(
            request_id=request.id,
            attempt=tracked.attempt if leg is Leg.DECODE else tracked.attempt + 1,
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
            chosen=rows[chosen],
            others=tuple(rows[place] for place in others),
            counterfactuals=tuple((name, rows[place]) for name, place in named),
            pairs_considered=table.rows_usable,
            verdicts=made.out.verdicts(),
            inputs=self._inputs(view, prefill_slot, decode_slot),
            prefill_price_s_per_s=table.prefill_price,
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
        return Placed(decision, prefill_slot, decode_slot, float(compute_s), view, choice.decode_bound)

    def _policy_choice(self, request: Request, table: Table, ranked: list[Pair], bound: EndpointId | None) -> Choice:
        if not np.count_nonzero(table.serving):
            return Choice(ranked[0].i, ranked[0].j, "only local plans can serve: the cheapest of them")
        if bound is not None:
            slot = self._state.slot(bound)
            columns = ((table.decode.slots == slot) & table.usable_from(0)).nonzero()[0]
            if len(columns):
                return Choice(0, int(columns[0]), "decode stays where it was bound at arrival", decode_bound=True)
        return self._policy.choose(request, table, ranked, self._chance)

    def _priced(self, table: Table, wanted: list[Place], request: Request) -> dict[Place, PricedPlan]:
        """Each wanted row once."""
        places = dict.fromkeys(wanted)
        rows: dict[Place, PricedPlan] = {}
        if split := [place for place in places if place[0] != table.local_row]:
            i, j = np.array(split).T
            prefill = table.prefill
            explained, cached = table.pairs_explained(i, j), prefill.cached_tokens[i].astype(np.int64).tolist()
            rows |= self._rows(table, split, j, explained, prefill.slots[i].tolist(), cached, request)
        if local := [place for place in places if place[0] == table.local_row]:
            j = np.array([j for _, j in local])
            decode = table.decode
            explained, cached = table.locals_explained(j), decode.held_tokens[j].astype(np.int64).tolist()
            rows |= self._rows(table, local, j, explained, decode.slots[j].tolist(), cached, request)
        return rows

    def _rows(
        self,
        table: Table,
        places: list[Place],
        j: NDArray[np.intp],
        explained: list[Explained],
        sources: list[int],
        cached: list[int],
        request: Request,
    ) -> dict[Place, PricedPlan]:
        """`sources` are the slots that prefill, `cached` the tokens that they reuse."""
        held, targets = table.decode.held_tokens[j].astype(np.int64).tolist(), table.decode.slots[j].tolist()
        endpoints, tokens = self._state.fleet.endpoints, request.prompt_tokens
        hit, recompute = Action.HIT, Action.RECOMPUTE
        return {
            place: PricedPlan(
                Plan(
                    endpoints[source].id,
                    endpoints[target].id,
                    hit if reused else recompute,
                    reused,
                    there,
                    0 if source == target else tokens - there,
                ),
                total_s,
                terms,
            )
            for place, (total_s, terms), source, target, reused, there in zip(
                places, explained, sources, targets, cached, held, strict=True
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


def _with_full_ones(out: Filtered, prefill_slot: int) -> Filtered:
    """`out`, but when nobody else has room, whoever would have it later."""
    blocked = out.masks.decode_blocked.copy()
    blocked[prefill_slot] = True
    return out.with_full_ones() if blocked.all() else out


def _slots(table: Table, i: int, j: int) -> tuple[int, int]:
    decode_slot = int(table.decode.slots[j])
    return (decode_slot if i == table.local_row else int(table.prefill.slots[i])), decode_slot


def _age(age_s: float) -> float | None:
    """None is Unknown: it never came."""
    return None if isinf(age_s) else float(age_s)


def _cache_state(match: Match, slot: int) -> str:
    """What the prefilling endpoint has of the prompt: blocks that are ready, blocks on their way, or none."""
    ready = match.ready_at(slot)
    if ready == match.expected[slot]:
        return "ready" if ready else "absent"
    return "filling"
