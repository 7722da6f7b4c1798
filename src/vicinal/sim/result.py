"""What a simulated run comes to: the JSON of `vicinal simulate --json`."""

from array import array
from collections.abc import Mapping

import msgspec
import numpy as np

from vicinal.domain.outcome import Ending
from vicinal.observe.hit_rates import hit_rate_by_tier
from vicinal.observe.spread import Spread, Tails
from vicinal.sim.measures import Measures
from vicinal.sim.stability import Unstable
from vicinal.topology.graph import Level

TENANTS_SHOWN = 16


class Tenant(msgspec.Struct, frozen=True):
    """A tenant's completed requests, and by how much they were slowed down: TTFT ÷ that of the prompt alone."""

    requests: int
    slowdown: Spread


class Result(msgspec.Struct, frozen=True):
    """Times are virtual seconds except `wall_s` and `decision_us`, which are this machine's.

    `shed` were refused, `failed` lost their engine, `unfinished` were under way when an unstable run was ended.
    `goodput` is requests per second that met both objectives; `attainment` their share of all that arrived, shed and
    failed ones included. `fairness` is Jain's index of the tenants' mean slowdowns: 1 when all are alike, 1/n when one
    of n gets everything; None for a single tenant. `clock_debt` is what `vicinal up` calls so: none in virtual time.
    `prefix_hit_rate` is the share of prompt tokens that the prefilling engine reused, from whatever tier of its own;
    `hit_rate_by_tier` says from which, and is empty where all of them were in HBM.
    """

    policy: str
    seed: int
    requests: int
    completed: int
    failed: int
    shed: int
    unfinished: int
    duration_s: float | None
    rate_per_s: float | None
    ttft_s: Spread
    tpot_s: Spread
    e2e_s: Spread
    goodput: float | None
    attainment: float | None
    prefix_hit_rate: float | None
    output_tokens_per_s: float | None
    kv_bytes: dict[str, int]
    preemptions: int
    fairness: float | None
    tenants: dict[str, Tenant]
    warnings: dict[str, int]
    endings: dict[str, int]
    unstable: Unstable | None
    decision_us: Tails
    wall_s: float
    simulated_per_s: float
    clock_debt: float = 0.0
    hit_rate_by_tier: dict[str, float] = {}


def result(measures: Measures, policy: str, seed: int, unstable: Unstable | None, wall_s: float) -> Result:
    """Put together what a finished run was measured by."""
    completed = len(measures.ttft_s)
    span_s = measures.last_s - measures.first_s if measures.first_s is not None else 0.0
    arrivals_s = max(measures.arrived_s) - min(measures.arrived_s) if completed > 1 else 0.0
    endings = dict(measures.endings)
    failed = sum(count for ending, count in endings.items() if ending in _FAILED)
    shed = sum(endings.values()) - completed - failed
    return Result(
        policy=policy,
        seed=seed,
        requests=measures.requests,
        completed=completed,
        failed=failed,
        shed=shed,
        unfinished=measures.unfinished,
        duration_s=span_s or None,
        rate_per_s=(completed - 1) / arrivals_s if arrivals_s else None,
        ttft_s=Spread.of(measures.ttft_s),
        tpot_s=Spread.of(measures.tpot_s),
        e2e_s=Spread.of(measures.e2e_s),
        goodput=measures.good / span_s if span_s else None,
        attainment=measures.good / measures.requests if measures.requests else None,
        prefix_hit_rate=measures.cached_tokens / measures.prompt_tokens if measures.prompt_tokens else None,
        output_tokens_per_s=measures.output_tokens / span_s if span_s else None,
        kv_bytes={level.label: round(measures.bytes_by_level.get(level.label, 0.0)) for level in Level},
        preemptions=measures.preemptions,
        fairness=_fairness(measures.slowdowns),
        tenants=_tenants(measures.slowdowns),
        warnings=dict(measures.warnings),
        endings=endings,
        unstable=unstable,
        decision_us=Tails.of(measures.decision_us),
        wall_s=wall_s,
        simulated_per_s=measures.requests / wall_s if wall_s else 0.0,
        hit_rate_by_tier=hit_rate_by_tier(
            measures.cached_tokens,
            {tier.value: tokens for tier, tokens in measures.loaded_tokens.items()},
            measures.prompt_tokens,
        ),
    )


_FAILED = (Ending.ENGINE_FAILED, Ending.STREAM_BROKEN)


def _fairness(slowdowns: Mapping[str, "array[float]"]) -> float | None:
    if len(slowdowns) < 2:
        return None
    means = np.array([np.mean(values) for values in slowdowns.values()])
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def _tenants(slowdowns: Mapping[str, "array[float]"]) -> dict[str, Tenant]:
    """The busiest of several tenants."""
    if len(slowdowns) < 2:
        return {}
    busiest = sorted(slowdowns, key=lambda name: (-len(slowdowns[name]), name))[:TENANTS_SHOWN]
    return {name: Tenant(len(slowdowns[name]), Spread.of(slowdowns[name])) for name in busiest}
