"""The result of a run: what clients got, in the engines' model seconds, and what it took.

Model seconds are the engines' own; what the gateway adds is real time on this machine and is told apart (`gateway_
overhead_s`), because a speed above 1 would blow it up.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from vicinal.domain.request import INTERACTIVE, ServiceClass
from vicinal.observe.hit_rates import hit_rate_by_tier
from vicinal.observe.spread import Spread, Tails
from vicinal.replay.answer import Answer, Fate
from vicinal.replay.latencies import Latency, latencies
from vicinal.replay.stamps import Served
from vicinal.topology.graph import Level
from vicinal.wire.stamps import Stamp

CLOCK_DEBT_MAX = 0.05


class Summary(msgspec.Struct, frozen=True):
    """The JSON of `vicinal up --json` (DESIGN 11).

    Times are model seconds except `gateway_overhead_s` (wall seconds) and `decision_us` (wall microseconds).
    `goodput` is requests per model second that met both objectives; `prefix_hit_rate` is cached ÷ prompt tokens on the
    engines that prefilled, whatever tier they were cached in; `hit_rate_by_tier` says which, and is empty where all of
    them were in HBM; `kv_bytes` crossed the network by level. `clock_debt` is how late the engines ran, as a
    share of the run; above 5 % the figures are not `valid`.
    """

    requests: int
    completed: int
    failed: int
    shed: int
    policy: str
    seed: int
    speed: float
    duration_s: float | None
    ttft_s: Spread
    tpot_s: Spread
    e2e_s: Spread
    goodput: float | None
    prefix_hit_rate: float | None
    kv_bytes: dict[str, int]
    decision_us: Tails
    gateway_overhead_s: Tails
    clock_debt: float | None
    valid: bool | None
    hit_rate_by_tier: dict[str, float] = {}


def summarise(
    answers: Sequence[Answer],
    stamps: Iterable[Stamp],
    *,
    policy: str,
    seed: int,
    speed: float,
    unloaded_ttft_s: Callable[[int], float],
    kv_bytes: Mapping[str, int],
    clock_debt: float | None,
    decision_us: Iterable[float] = (),
    held_s: Mapping[str, float] | None = None,
    service: ServiceClass = INTERACTIVE,
) -> Summary:
    """Puts together what the client, the engines and the gateway noted.

    Only completed requests count in times, goodput and hit rate. TTFT is the engines' time to the first token of the
    attempt that answered, plus what earlier attempts took, plus `held_s` (model seconds in the gateway's queue, by
    request). `unloaded_ttft_s` of prompt tokens sets the TTFT objective: max(floor, factor × unloaded). An answer of
    one token meets any TPOT. `kv_bytes` is by label of `Level`; a level that it lacks moved nothing. Raises ValueError
    for an unknown label.
    """
    labels = [level.label for level in Level]
    if unknown := sorted(set(kv_bytes) - set(labels)):
        raise ValueError(f"unknown network level {unknown[0]!r}; levels are {', '.join(labels)}")
    known = latencies(answers, stamps, held_s or {})

    def good(one: Latency) -> bool:
        first_s, prompt_tokens = one.ttft_s, one.served.first.prompt_tokens
        if first_s is None or prompt_tokens is None:
            return False
        objective_s = service.ttft_objective_s(unloaded_ttft_s(prompt_tokens))
        return first_s <= objective_s and (one.tpot_s is None or one.tpot_s <= service.tpot_objective_s)

    duration_s = _duration_s([one.served for one in known])
    return Summary(
        requests=len(answers),
        completed=sum(answer.fate is Fate.COMPLETED for answer in answers),
        failed=sum(answer.fate is Fate.FAILED for answer in answers),
        shed=sum(answer.fate is Fate.SHED for answer in answers),
        policy=policy,
        seed=seed,
        speed=speed,
        duration_s=duration_s,
        ttft_s=Spread.of(first_s for one in known if (first_s := one.ttft_s) is not None),
        tpot_s=Spread.of(one.tpot_s for one in known if one.tpot_s is not None),
        e2e_s=Spread.of(one.e2e_s for one in known if one.e2e_s is not None),
        goodput=sum(map(good, known)) / duration_s if duration_s else None,
        prefix_hit_rate=hit_rate([one.served.first for one in known]),
        kv_bytes={label: kv_bytes.get(label, 0) for label in labels},
        decision_us=Tails.of(decision_us),
        gateway_overhead_s=Tails.of(
            one.answer.first_s - one.answer.sent_s - first_s / speed
            for one in known
            if one.answer.first_s is not None and (first_s := one.ttft_s) is not None
        ),
        clock_debt=clock_debt,
        valid=None if clock_debt is None else clock_debt <= CLOCK_DEBT_MAX,
        hit_rate_by_tier=_by_tier([one.served.first for one in known]),
    )


def _duration_s(legs: Sequence[Served]) -> float | None:
    """Model seconds from the first arrival at an engine to the last token."""
    if not legs:
        return None
    ends = [leg.last.finished_s for leg in legs if leg.last.finished_s is not None]
    return max(ends) - min(leg.first.arrived_s - leg.tried_s for leg in legs)


def hit_rate(prefills: Sequence[Stamp]) -> float | None:
    """Cached ÷ prompt tokens of the legs that say both; None when none does."""
    said = [(s.cached_tokens, s.prompt_tokens) for s in prefills if s.cached_tokens is not None and s.prompt_tokens]
    return sum(cached for cached, _ in said) / sum(tokens for _, tokens in said) if said else None


def _by_tier(prefills: Sequence[Stamp]) -> dict[str, float]:
    loaded: Counter[str] = Counter()
    for stamp in prefills:
        loaded.update(stamp.loaded_tokens)
    cached = sum(stamp.cached_tokens or 0 for stamp in prefills)
    return hit_rate_by_tier(cached, loaded, sum(stamp.prompt_tokens or 0 for stamp in prefills))
