"""What a simulated run comes to: the JSON of `vicinal simulate --json`."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from vicinal.domain.outcome import Ending
from vicinal.observe.hit_rates import hit_rate_by_tier
from vicinal.observe.spread import Spread, Tails
from vicinal.sim.completed import Completed
from vicinal.sim.measures import Measures
from vicinal.sim.stability import Unstable
from vicinal.sim.timeline import Timeline
from vicinal.topology.graph import Level

TENANTS_SHOWN = 16


class Tenant(msgspec.Struct, frozen=True):
    """A tenant's (or a class of service's) completed requests, and by how much they were slowed down: TTFT ÷ that of
    the prompt alone. `good` of them met both objectives; `refused` are those that ended without an answer. `wait_s` is
    from arrival until the scheduler sent the request off."""

    requests: int
    slowdown: Spread
    ttft_s: Spread = Spread()
    wait_s: Spread = Spread()
    good: int = 0
    refused: int = 0
    tokens: int = 0


class Errands(msgspec.Struct, frozen=True):
    """What clients wanted done, however many requests it took: `requests` are those, `given_up` of the errands ended
    without an answer. `ttft_s` is from the first request of an errand to the first token of its answer."""

    errands: int
    requests: int
    given_up: int
    ttft_s: Spread


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
    services: dict[str, Tenant] = {}
    errands: Errands | None = None
    unreasoned: int = 0
    timeline: Timeline | None = None


def result(
    measures: Measures,
    policy: str,
    seed: int,
    unstable: Unstable | None,
    wall_s: float,
    timeline: Timeline | None = None,
) -> Result:
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
        fairness=_fairness(measures.completed),
        tenants=_shown(measures, measures.parties.tenants()),
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
        services=_shown(measures, measures.parties.services()),
        errands=_errands(measures),
        unreasoned=measures.unreasoned,
        timeline=timeline,
    )


_FAILED = (Ending.ENGINE_FAILED, Ending.STREAM_BROKEN)


def _fairness(completed: Completed) -> float | None:
    slowdown, party = completed.column("slowdown"), np.array(completed.party, dtype=int)
    of_tenants = [slowdown[np.isin(party, numbers)] for numbers in completed.parties.tenants().values()]
    means = np.array([values.mean() for values in of_tenants if len(values)])
    if len(means) < 2:
        return None
    return float(means.sum() ** 2 / (len(means) * (means**2).sum()))


def _shown(measures: Measures, groups: Mapping[str, Sequence[int]]) -> dict[str, Tenant]:
    """The busiest of several groups of parties."""
    if len(groups) < 2:
        return {}
    found = {name: _tenant(measures, numbers) for name, numbers in groups.items()}
    busiest = sorted(found, key=lambda name: (-found[name].requests, name))[:TENANTS_SHOWN]
    return {name: found[name] for name in busiest}


def _tenant(measures: Measures, numbers: Sequence[int]) -> Tenant:
    completed = measures.completed
    whose = np.isin(np.array(completed.party, dtype=int), numbers)
    tokens = completed.column("prompt_tokens") + completed.column("output_tokens")
    return Tenant(
        requests=int(whose.sum()),
        slowdown=Spread.of(completed.column("slowdown")[whose]),
        ttft_s=Spread.of(completed.ttft_s[whose]),
        wait_s=Spread.of((completed.column("sent_s") - completed.column("arrived_s"))[whose]),
        good=int(completed.column("good")[whose].sum()),
        refused=int(np.isin(np.array(measures.refused_party, dtype=int), numbers).sum()),
        tokens=int(tokens[whose].sum()),
    )


def _errands(measures: Measures) -> Errands | None:
    """None when nobody came back: then every request is an errand."""
    if not measures.came_back:
        return None
    completed = measures.completed
    return Errands(
        errands=len(measures.arrivals_s) - measures.came_back,
        requests=len(measures.arrivals_s),
        given_up=measures.given_up,
        ttft_s=Spread.of(completed.column("first_s") - completed.column("asked_s")),
    )
