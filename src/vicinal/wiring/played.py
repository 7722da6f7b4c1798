"""A live run as the result that a simulated one has, so that both are reported alike.

Times are the engines' model seconds and the scheduler's: what the gateway's sockets add is wall time of this machine
and is left out, as `vicinal up` does. What nobody measured live is None, empty or zero: preemptions, for example.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from vicinal.config.cluster import services
from vicinal.config.fleet import Config
from vicinal.domain.request import ServiceClass
from vicinal.observe.spread import Spread, Tails
from vicinal.replay.answer import Answer, Fate
from vicinal.replay.latencies import Latency, latencies
from vicinal.replay.summary import hit_rate
from vicinal.sim.result import Errands, Result, Tenant
from vicinal.sim.timeline import Timeline
from vicinal.topology.graph import Level
from vicinal.wiring.embedded import Played
from vicinal.wiring.over import Over


def played_result(
    config: Config,
    played: Played,
    over: Over,
    unloaded_ttft_s: Callable[[int], float],
    decision_us: Sequence[float],
    wall_s: float,
    window_s: float = 2.0,
) -> Result:
    """What a live run on the cluster of `config` comes to; it took `wall_s`. Of its timeline only counts of arrivals,
    good ones and refusals are known, all by the time at which a request was due to be sent."""
    kinds = {service.name: service for service in services(config)}
    default = next(iter(kinds.values()))
    known = latencies(played.answers, played.stamps, over.held_s)
    good = {one.answer.request_id for one in known if _good(one, kinds, default, unloaded_ttft_s)}
    fates = Counter(answer.fate for answer in played.answers)
    span_s = max((one.served.last.finished_s or 0.0 for one in known), default=0.0) - min(
        (one.served.first.arrived_s for one in known), default=0.0
    )
    stamps_s = [answer.at_s for answer in played.answers if answer.tries == 1]
    arrivals_s = max(stamps_s) - min(stamps_s) if stamps_s else 0.0
    outputs = sum(one.served.last.output_tokens or 0 for one in known)

    def parties(of: Callable[[Answer], str | None]) -> dict[str, Tenant]:
        names = sorted({name for answer in played.answers if (name := of(answer))})
        if len(names) < 2:
            return {}
        return {name: _party(name, of, played.answers, known, good, unloaded_ttft_s, over.held_s) for name in names}

    return Result(
        policy=config.scheduler.policy,
        seed=config.scheduler.seed,
        requests=len(played.answers),
        completed=fates[Fate.COMPLETED],
        failed=fates[Fate.FAILED],
        shed=fates[Fate.SHED],
        unfinished=0,
        duration_s=span_s or None,
        rate_per_s=(len(stamps_s) - 1) / arrivals_s if arrivals_s else None,
        ttft_s=Spread.of(ttft_s for one in known if (ttft_s := one.ttft_s) is not None),
        tpot_s=Spread.of(one.tpot_s for one in known if one.tpot_s is not None),
        e2e_s=Spread.of(e2e_s for one in known if (e2e_s := one.e2e_s) is not None),
        goodput=len(good) / span_s if span_s else None,
        attainment=len(good) / len(played.answers) if played.answers else None,
        prefix_hit_rate=hit_rate([one.served.first for one in known]),
        output_tokens_per_s=outputs / span_s if span_s else None,
        kv_bytes={level.label: played.kv_bytes.get(level.label, 0) for level in Level},
        preemptions=0,
        fairness=None,
        tenants=parties(lambda answer: answer.tenant),
        warnings={},
        endings=dict(over.endings),
        unstable=None,
        decision_us=Tails.of(decision_us),
        wall_s=wall_s,
        simulated_per_s=0.0,
        clock_debt=float("inf") if played.clock_debt is None else played.clock_debt,
        services=parties(lambda answer: answer.service),
        errands=_errands(played.answers),
        unreasoned=over.unreasoned,
        timeline=_timeline(played.answers, good, config.emulator.speed, window_s),
    )


def _timeline(answers: Sequence[Answer], good: set[str], speed: float, window_s: float) -> Timeline | None:
    firsts = [answer for answer in answers if answer.tries == 1]
    if not firsts:
        return None
    origin_s = firsts[0].due_s - firsts[0].at_s / speed
    windows = [int((answer.due_s - origin_s) * speed // window_s) for answer in answers]
    count = max(windows) + 1

    def counted(of: Callable[[Answer], bool]) -> list[int]:
        chosen = [window for window, answer in zip(windows, answers, strict=True) if of(answer)]
        return [int(number) for number in np.bincount(np.array(chosen, dtype=int), minlength=count)]

    well = counted(lambda answer: answer.request_id in good)
    refused = counted(lambda answer: answer.fate is Fate.SHED)
    nothing = [0.0] * count
    return Timeline(
        window_s=window_s,
        arrived=counted(lambda _: True),
        good=well,
        finished_good=well,
        refused=refused,
        ttft_p99_s=[None] * count,
        held=[0] * count,
        kept=[0] * count,
        prefill_load=nothing,
        decode_load=nothing,
        service={},
        computed={},
        sent={},
    )


def _good(
    one: Latency,
    kinds: Mapping[str, ServiceClass],
    default: ServiceClass,
    unloaded_ttft_s: Callable[[int], float],
) -> bool:
    ttft_s, prompt_tokens = one.ttft_s, one.served.first.prompt_tokens
    if ttft_s is None or prompt_tokens is None:
        return False
    service = kinds.get(one.answer.service or "", default)
    objective_s = service.ttft_objective_s(unloaded_ttft_s(prompt_tokens))
    return ttft_s <= objective_s and (one.tpot_s is None or one.tpot_s <= service.tpot_objective_s)


def _party(
    name: str,
    of: Callable[[Answer], str | None],
    answers: Sequence[Answer],
    known: Sequence[Latency],
    good: set[str],
    unloaded_ttft_s: Callable[[int], float],
    held_s: Mapping[str, float],
) -> Tenant:
    own = [one for one in known if of(one.answer) == name and one.ttft_s is not None]
    ttft_s = np.array([one.ttft_s for one in own], dtype=np.float64)
    prompts = np.array([one.served.first.prompt_tokens or 0 for one in own])
    alone_s = np.array([unloaded_ttft_s(int(tokens)) for tokens in prompts], dtype=np.float64)
    return Tenant(
        requests=len(own),
        slowdown=Spread.of(ttft_s / alone_s),
        ttft_s=Spread.of(ttft_s),
        wait_s=Spread.of(held_s.get(one.answer.request_id, 0.0) for one in own),
        good=sum(one.answer.request_id in good for one in own),
        refused=sum(of(answer) == name and answer.fate is Fate.SHED for answer in answers),
        tokens=int(prompts.sum()) + sum(one.served.last.output_tokens or 0 for one in own),
    )


def _errands(answers: Sequence[Answer]) -> Errands | None:
    """Its TTFT is not known: between the tries of an errand passes time of this machine."""
    if all(answer.tries == 1 for answer in answers):
        return None
    errands = sum(answer.tries == 1 for answer in answers)
    completed = sum(answer.fate is Fate.COMPLETED for answer in answers)
    return Errands(errands, len(answers), errands - completed, Spread())
