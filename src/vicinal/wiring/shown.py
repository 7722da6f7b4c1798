"""What operators are shown of the scheduler's belief: a row per endpoint, and the directory of block groups."""

from collections.abc import Iterable, Mapping
from heapq import nlargest
from typing import Any

import numpy as np

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.tier import Tier
from vicinal.kvindex.groups import Copy, Group
from vicinal.scheduler.scheduler import Scheduler
from vicinal.wiring.queues import shown_queues
from vicinal.wiring.shown_overload import shown_endpoint, shown_models


def shown_state(scheduler: Scheduler, fleet: Iterable[Endpoint], now: float) -> Mapping[str, Any]:
    """Sizes, ages and counts as of `now`. `blocks_known` are blocks that an endpoint is believed to hold in HBM,
    `blocks_below` those in the tiers below it."""
    state = scheduler.state
    view = state.view(now)
    return {
        "policy": scheduler.policy.name,
        "requests": len(scheduler.requests),
        "held": len(scheduler.turns.flow),
        "prefill_price_s_per_s": scheduler.cost.posted_price(view),
        "blocks_known": len(state.index),
        "circuits": scheduler.blame.shown(),
        "pressure": shown_models(scheduler),
        **shown_queues(scheduler, now),
        "endpoints": [
            {
                "id": endpoint.id,
                "role": endpoint.role,
                "usable": bool(view.usable[slot]),
                "report_age_s": _finite(view.report_age_s[slot]),
                "wait_prefill_s": float(view.wait_prefill_s[slot]),
                "prefills": int(view.prefill_count[slot]),
                "decode_sequences": float(view.decode_sequences[slot]),
                "free_blocks": float(view.free_blocks[slot]),
                "blocks_known": state.index.blocks_held(slot),
                "blocks_below": {
                    tier.value: state.index.blocks_held(slot, tier) for tier in Tier if tier is not Tier.HBM
                },
                **shown_endpoint(scheduler, slot),
            }
            for endpoint in fleet
            if (slot := state.slot(endpoint.id)) is not None
        ],
    }


def shown_groups(scheduler: Scheduler, now: float, most: int) -> Mapping[str, Any]:
    """The `most` warmest groups. Takes time in proportion to all of them."""
    state = scheduler.state
    block_tokens = state.index.block_tokens
    counted = 0

    def all_of_them() -> Iterable[Group]:
        nonlocal counted
        for group in state.index.groups(state.engine_blocks.epochs):
            counted += 1
            yield group

    def copy(one: Copy) -> dict[str, Any]:
        return {
            "endpoint": state.fleet.endpoints[one.slot].id,
            "tier": one.tier,
            "state": one.state,
            "epoch": one.epoch,
            "plans": one.plans,
            "readers": one.readers,
        }

    warmest = nlargest(most, all_of_them(), key=lambda group: group.warm_s)
    shown = [
        {
            "first": f"{group.first:016x}",
            "last": f"{group.last:016x}",
            "tokens": group.blocks * block_tokens,
            "heat": group.heat(now),
            "copies": [copy(one) for one in group.copies],
        }
        for group in warmest
    ]
    return {"groups_known": counted, "groups": shown}


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
