"""One request, one decision: view -> filters -> table -> policy -> a `Decision`. Reserves nothing, changes nothing."""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.state import ClusterState
from vicinal.contracts.policy import Choice, Policy
from vicinal.cost.model import CostModel
from vicinal.cost.pairs import Ranking
from vicinal.cost.table import Table
from vicinal.domain.chance import Stream
from vicinal.domain.decision import Decision
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Leg
from vicinal.domain.request import Request
from vicinal.domain.tier import Tier
from vicinal.flow.gate import all_saturated
from vicinal.flow.reserves import Reserves
from vicinal.kvindex.match import Match
from vicinal.scheduler.blame import Blame
from vicinal.scheduler.copying import as_copy
from vicinal.scheduler.describing import RANKED, Chosen, Describer
from vicinal.scheduler.filters import Filtered, filtered
from vicinal.scheduler.overload import Overload
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.scheduler.tracked import Tracked


class Placed(Struct, frozen=True):
    """A choice that can be carried out. `compute_s` is the prefill's predicted compute where it will run,
    `pool_wait_s` the mean wait for prefill when it was chosen, `ready_blocks` what of the prompt is ready there.
    `concurrent`: both legs have to leave together, so decode is bound now."""

    decision: Decision
    prefill_slot: int
    decode_slot: int
    compute_s: float
    pool_wait_s: float
    decode_bound: bool
    ready_blocks: int
    concurrent: bool = False


class Cycle:
    """Decides with one policy on one state. `settings.local_prefill` lets decode endpoints prefill for themselves."""

    def __init__(
        self,
        state: ClusterState,
        cost: CostModel,
        policy: Policy,
        chance: Stream,
        settings: SchedulerSettings,
        reserves: Reserves,
        blame: Blame,
        overload: Overload,
    ) -> None:
        self._state = state
        self._reserves = reserves
        self._cost = cost
        self._policy = policy
        self._chance = chance
        self._blame = blame
        self._overload = overload
        self._local_prefill = settings.local_prefill
        self._describer = Describer(state, policy.name, settings.explain)

    def plan(self, tracked: Tracked, queue_length: int, now: float) -> Placed | Filtered:
        """Choose a plan and write down why, or say who was left out and why."""
        chosen = self.choose(tracked, now)
        return chosen if isinstance(chosen, Filtered) else self._placed(tracked, chosen, queue_length)

    def plan_decode(self, tracked: Tracked, queue_length: int, now: float) -> Placed | Filtered:
        """Likewise for where to decode, now that the prefill is done."""
        chosen = self._choose_decode(tracked, now)
        return chosen if isinstance(chosen, Filtered) else self._placed(tracked, chosen, queue_length)

    def choose(self, tracked: Tracked, now: float) -> Chosen | Filtered:
        """The decision itself: view, filters, match, table, policy."""
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, self._local_prefill, self._reserves, self._blame.left_out)
        if request.copy_to is not None:
            return self._choose_copy(request, out)
        kept = self._kept(out)
        if kept is not None:
            return kept
        match = self._match(request)
        table = self._cost.table(request, view, match.expected, out.masks, _below(match))
        ranking = Ranking(table, RANKED)
        if np.count_nonzero(table.serving):
            choice = self._policy.choose(request, table, ranking, self._chance)
        elif not np.count_nonzero(table.usable_local):
            return out  # those that have room are no pair with each other
        else:
            choice = self._policy.choose_whole(request, table, ranking, self._chance)
        leg = Leg.WHOLE if choice.i == table.local_row else Leg.PREFILL
        return Chosen(leg, table, match, out, ranking, choice)

    def keeps(self, tracked: Tracked, now: float) -> Filtered | None:
        """What would keep it from being placed now, as far as that does not depend on pairs; None for nothing."""
        view = self._state.view(now)
        left_out = self._blame.left_out
        return self._kept(filtered(tracked.request, view, tracked.tried, self._local_prefill, self._reserves, left_out))

    def _kept(self, out: Filtered) -> Filtered | None:
        if not out.can_serve:
            return out
        limit_s = self._overload.limit_s
        return out.saturated(limit_s) if all_saturated(out.entry, out.view, limit_s) else None

    def _choose_copy(self, request: Request, out: Filtered) -> Chosen | Filtered:
        """The cheapest holder, whatever the policy: a policy's rule, and its state, are about requests of clients."""
        match = self._match(request)
        out = as_copy(out, match)
        if not out.can_serve:
            return out
        table = self._cost.copies.table(request, out.view, match.expected, out.masks)
        if not np.count_nonzero(table.serving):
            return out
        ranking = Ranking(table, RANKED)
        best = ranking.drawn(self._chance)[0]
        choice = Choice(best.i, best.j, f"cheapest holder to copy from: {best.total_s:.3f} s", decode_bound=True)
        return Chosen(Leg.PREFILL, table, match, out, ranking, choice)

    def _choose_decode(self, tracked: Tracked, now: float) -> Chosen | Filtered:
        """Full endpoints may be chosen, at the price of waiting."""
        assert tracked.plan is not None
        request = tracked.request
        view = self._state.view(now)
        out = filtered(request, view, tracked.tried, False, self._reserves, self._blame.left_out)
        prefill_slot = self._state.slot(tracked.plan.prefill)
        if prefill_slot is None or prefill_slot not in tracked.expected:
            return out  # the endpoint left, and its KV with it, even if one of that name is back
        match = self._match(request)
        if request.copy_to is None:
            cost, roomy = self._cost, _with_full_ones(out, prefill_slot)
        else:
            cost, roomy = self._cost.copies, as_copy(out, match)
        table = cost.decode_table(request, view, match.expected, roomy.masks, prefill_slot)
        if not np.count_nonzero(table.serving):
            return out
        ranking = Ranking(table, RANKED)
        bound = self._still_bound(table, tracked.plan.decode) if tracked.decode_bound else None
        choice = bound or self._policy.choose(request, table, ranking, self._chance)
        return Chosen(Leg.DECODE, table, match, roomy, ranking, choice)

    def _match(self, request: Request) -> Match:
        return self._state.index.match(request.block_hashes, len(self._state.fleet))

    def _still_bound(self, table: Table, decode: EndpointId) -> Choice | None:
        """The decode endpoint of the plan, if it can still serve."""
        columns = ((table.decode.slots == self._state.slot(decode)) & table.usable_from(0)).nonzero()[0]
        if not len(columns):
            return None
        return Choice(0, int(columns[0]), "decode stays where it was bound at arrival", decode_bound=True)

    def _placed(self, tracked: Tracked, made: Chosen, queue_length: int) -> Placed:
        table, choice = made.table, made.choice
        compute_s = (
            table.decode.local_compute_s[choice.j] if made.leg is Leg.WHOLE else table.prefill.compute_s[choice.i]
        )
        prefill_slot, decode_slot = made.slots
        decision = self._describer.decision(tracked, made, queue_length)
        ready_blocks = made.match.ready_at(prefill_slot)
        if ready_blocks == made.match.expected[prefill_slot]:  # what is to be loaded continues what is in HBM
            ready_blocks += decision.chosen.plan.loaded_tokens // tracked.request.block_tokens
        return Placed(
            decision,
            prefill_slot,
            decode_slot,
            float(compute_s),
            table.pool_wait_s,
            choice.decode_bound,
            ready_blocks,
            made.leg is Leg.PREFILL and self._state.fleet.endpoints[prefill_slot].hand_off.concurrent,
        )


def _below(match: Match) -> tuple[NDArray[np.int32], ...]:
    """How far the prompt reaches with host memory, and with SSD; nothing where no endpoint has more there."""
    down_to_ssd = match.reach(Tier.SSD)
    return () if down_to_ssd is match.expected else (match.reach(Tier.HOST), down_to_ssd)


def _with_full_ones(out: Filtered, prefill_slot: int) -> Filtered:
    """`out`, but when nobody else has room, whoever would have it later."""
    blocked = out.masks.decode_blocked.copy()
    blocked[prefill_slot] = True
    return out.with_full_ones() if blocked.all() else out
