"""A choice as a `Decision`: with all that its record says, or only with what carrying it out needs.

Describing decides nothing and draws nothing from the stream of the decisions, so a scheduler that does not explain
itself decides the same (SchedulerSettings.explain).
"""

from collections.abc import Mapping, Sequence
from math import isinf
from types import MappingProxyType
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.contracts.policy import Choice
from vicinal.cost.pairs import Ranking
from vicinal.cost.sides import Below
from vicinal.cost.table import Explained, Table
from vicinal.domain.decision import Decision, InputAge, PricedPlan
from vicinal.domain.ids import EndpointId
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.request import Request
from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import coarse
from vicinal.kvindex.match import Match
from vicinal.scheduler.counterfactuals import Place, counterfactuals
from vicinal.scheduler.filters import Filtered
from vicinal.scheduler.tracked import Tracked

OTHERS = 8
RANKED = OTHERS + 1
"""The cheapest rows that a decision looks at: the others, and the chosen one among them."""


Loads = tuple[int, int]
"""Tokens that a plan loads from host memory, and from SSD."""

_NOT_LOOKED_AT: Mapping[str, Any] = MappingProxyType(
    {
        "others": (),
        "counterfactuals": (),
        "pairs_considered": None,
        "verdicts": (),
        "inputs": (),
        "worker_queue_length": None,
        "gpu_hbm_available_tokens": None,
        "cache_location": None,
        "cache_state": None,
        "coarse_hashes": (),
    }
)


class Chosen(Struct, frozen=True):
    """A choice, and what it was made from. `ranking` are the cheapest rows of the table."""

    leg: Leg
    table: Table
    match: Match
    out: Filtered
    ranking: Ranking
    choice: Choice

    @property
    def slots(self) -> tuple[int, int]:
        """Who prefills, and who decodes."""
        table, choice = self.table, self.choice
        decode_slot = int(table.decode.slots[choice.j])
        return (decode_slot if choice.i == table.local_row else int(table.prefill.slots[choice.i])), decode_slot


class Describer:
    """Writes down the choices of one policy. `explain` says whether all is written down."""

    def __init__(self, state: ClusterState, policy_name: str, explain: bool) -> None:
        self._state = state
        self._policy_name = policy_name
        self._explain = explain

    def decision(self, tracked: Tracked, made: Chosen, queue_length: int) -> Decision:
        request, table = tracked.request, made.table
        return Decision(
            request_id=request.id,
            attempt=tracked.attempt if made.leg is Leg.DECODE else tracked.attempt + 1,
            leg=made.leg,
            at_s=table.view.now_s,
            arrived_s=tracked.arrived_s,
            model_id=request.model,
            tenant_id=request.tenant,
            priority=request.priority,
            policy=self._policy_name,
            service=request.service.name,
            prompt_tokens=request.prompt_tokens,
            expected_output_tokens=request.expected_output_tokens,
            block_tokens=request.block_tokens,
            prefill_price_s_per_s=table.prefill_price,
            queue_length=queue_length,
            reason=made.choice.reason,
            **(self._whole(request, made) if self._explain else self._chosen(request, made)),
        )

    def _chosen(self, request: Request, made: Chosen) -> dict[str, Any]:
        """The chosen row, and nothing about what else there was."""
        table, choice = made.table, made.choice
        total_s, terms = table.explained(choice.i, choice.j)
        held = int(table.decode.held_tokens[choice.j])
        prefill, decode = table.prefill, table.decode
        if made.leg is Leg.WHOLE:
            cached, below, at = decode.local_cached_tokens, decode.local_below, choice.j
        else:
            cached, below, at = prefill.cached_tokens, prefill.below, choice.i
        plan = self._plan(*made.slots, int(cached[at]), _loads(below, [at])[0], held, request)
        return {"chosen": PricedPlan(plan, total_s, terms), **_NOT_LOOKED_AT}

    def _whole(self, request: Request, made: Chosen) -> dict[str, Any]:
        """The losers and the named alternatives too, who was left out, the inputs and their age."""
        table, match, choice = made.table, made.match, made.choice
        ranked = made.ranking.listed()
        chosen = (choice.i, choice.j)
        named = counterfactuals(table, ranked, choice.j)
        others = [place for pair in ranked if (place := (pair.i, pair.j)) != chosen][:OTHERS]
        rows = self._priced(table, [chosen, *others, *(place for _, place in named)], request)
        prefill_slot, decode_slot = made.slots
        view = table.view
        free_tokens = max(view.free_blocks[decode_slot], 0.0) * view.fleet.block_tokens[decode_slot]
        return {
            "chosen": rows[chosen],
            "others": tuple([rows[place] for place in others]),
            "counterfactuals": tuple([(name, rows[place]) for name, place in named]),
            "pairs_considered": table.rows_usable,
            "verdicts": made.out.verdicts(),
            "inputs": self._inputs(request, view, prefill_slot, decode_slot),
            "worker_queue_length": float(view.prefill_count[prefill_slot] + view.foreign_requests[prefill_slot]),
            "gpu_hbm_available_tokens": int(free_tokens),
            "cache_location": self._holder(match.reach(Tier.SSD)),
            "cache_state": _cache_state(match, prefill_slot, rows[chosen].plan),
            "coarse_hashes": (coarse(request.block_hashes, request.block_tokens) if made.leg is not Leg.DECODE else ()),
        }

    def _priced(self, table: Table, wanted: list[Place], request: Request) -> dict[Place, PricedPlan]:
        """Each wanted row once."""
        places = dict.fromkeys(wanted)
        rows: dict[Place, PricedPlan] = {}
        if split := [place for place in places if place[0] != table.local_row]:
            i, j = np.array(split).T
            prefill = table.prefill
            explained, cached = table.pairs_explained(i, j), prefill.cached_tokens[i].astype(np.int64).tolist()
            loads = _loads(prefill.below, i)
            rows |= self._rows(table, split, j, explained, prefill.slots[i].tolist(), cached, loads, request)
        if local := [place for place in places if place[0] == table.local_row]:
            j = np.array([j for _, j in local])
            decode = table.decode
            explained, cached = table.locals_explained(j), decode.local_cached_tokens[j].astype(np.int64).tolist()
            loads = _loads(decode.local_below, j)
            rows |= self._rows(table, local, j, explained, decode.slots[j].tolist(), cached, loads, request)
        return rows

    def _rows(
        self,
        table: Table,
        places: list[Place],
        j: NDArray[np.intp],
        explained: list[Explained],
        sources: list[int],
        cached: list[int],
        loads: Sequence[Loads],
        request: Request,
    ) -> dict[Place, PricedPlan]:
        """`sources` are the slots that prefill, `cached` the tokens that they reuse, `loads` what of them they load."""
        held, targets = table.decode.held_tokens[j].astype(np.int64).tolist(), table.decode.slots[j].tolist()
        plan = self._plan
        return {
            place: PricedPlan(plan(source, target, reused, load, there, request), total_s, terms)
            for place, (total_s, terms), source, target, reused, load, there in zip(
                places, explained, sources, targets, cached, loads, held, strict=True
            )
        }

    def _plan(self, source: int, target: int, cached: int, loads: Loads, held: int, request: Request) -> Plan:
        """`source` and `target` are slots."""
        endpoints = self._state.fleet.endpoints
        action = Action.HIT if cached else Action.RECOMPUTE
        if request.copy_to is not None:
            action = Action.MIGRATE
        return Plan(
            endpoints[source].id,
            endpoints[target].id,
            action,
            cached,
            held,
            0 if source == target else request.prompt_tokens - held,
            *loads,
        )

    def _inputs(self, request: Request, view: View, prefill_slot: int, decode_slot: int) -> tuple[InputAge, ...]:
        return (
            InputAge("ledger", "own dispatches", 0.0),
            _report(view, "prefill_report", prefill_slot),
            _report(view, "decode_report", decode_slot),
            self._blocks("prefill_blocks", request, view, prefill_slot),
            self._blocks("decode_blocks", request, view, decode_slot),
            InputAge("prompt", "tokens" if request.exact else "estimate", 0.0),
        )

    def _blocks(self, name: str, request: Request, view: View, slot: int) -> InputAge:
        """What an endpoint holds of the prompt: told by its events, or inferred from what went there, by tokens or by
        text; the age is of the last of them. A prompt without hashes is looked for nowhere."""
        state = self._state
        if not request.block_hashes:
            return InputAge(name, "none", None)
        if state.infers(slot, request):
            source = "text of own dispatches" if request.inferred_only else "own dispatches"
            return InputAge(name, source, _age(view, state.inferred.last_s(slot)))
        return InputAge(name, "engine events", _age(view, state.events_s[slot]))

    def _holder(self, blocks: NDArray[np.int32]) -> EndpointId | None:
        """Who holds the longest prefix of the prompt, if anybody holds any."""
        if not len(blocks) or not blocks.any():
            return None
        return self._state.fleet.endpoints[int(blocks.argmax())].id


def _report(view: View, name: str, slot: int) -> InputAge:
    """An engine that answers and says nothing of its load has told nothing, however recently."""
    if np.isfinite(view.reported_s[slot]) and np.isnan(view.reported_running[slot]):
        return InputAge(name, "no figures", None)
    return InputAge(name, "engine metrics", _age(view, view.reported_s[slot]))


def _age(view: View, heard_s: float) -> float | None:
    """None is Unknown: it never came."""
    return None if isinf(heard_s) else max(0.0, float(view.now_s - heard_s))


def _loads(below: Below | None, at: NDArray[np.intp] | list[int]) -> Sequence[Loads]:
    """Tokens to be loaded from host memory, and from SSD, at some positions of a side."""
    if below is None:
        return [(0, 0)] * len(at)
    host, ssd = (tokens[at].astype(np.int64).tolist() for tokens in (below.host_tokens, below.ssd_tokens))
    return list(zip(host, ssd, strict=True))


def _cache_state(match: Match, slot: int, plan: Plan) -> str:
    """What the prefilling endpoint has of the prompt: blocks on their way, blocks that are ready in HBM or, where some
    are not, the lowest tier that one of them comes from, or none."""
    ready = match.ready_at(slot)
    if ready != match.expected[slot]:
        return "filling"
    if plan.loaded_tokens:
        return (Tier.SSD if plan.from_ssd_tokens else Tier.HOST).value
    return "ready" if ready else "absent"
