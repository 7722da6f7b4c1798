"""Each policy that has a formula, in random worlds, against the formula asked of one endpoint or pair at a time.

The seconds come from the oracle of the decision table, which shares no code with it.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from msgspec import structs

from tests.cost import oracle
from tests.cost.worlds import World, mixed_fleet, world
from vicinal.cost.pairs import Ranking
from vicinal.policies.registry import POLICIES, policy
from vicinal.topology.graph import Level

Key = float | tuple[float, ...]
OfSlot = Callable[[World, int], Key]
OfPair = Callable[[World, int, int], Key]
OfTerms = Callable[[Mapping[str, float]], float]


@dataclass(frozen=True)
class Loop:
    """A rule as loops. `pair` is joint; or `prefill` comes first, then `decode` for the source that it took."""

    whole: OfSlot
    prefill: OfSlot | None = None
    decode: OfPair | None = None
    pair: OfPair | None = None


def figure(name: str) -> OfSlot:
    return lambda w, slot: float(getattr(w.view, name)[slot])


def known(figure: float) -> float:
    """Unknown is the largest."""
    return math.inf if math.isnan(figure) else figure


def requests(w: World, slot: int) -> float:
    view = w.view
    return float(view.prefill_count[slot] + view.decode_count[slot] + view.foreign_requests[slot])


def utilisation(w: World, slot: int) -> float:
    said = float(w.view.gpu_utilization[slot])
    if not math.isnan(said):
        return said
    running = float(w.view.reported_running[slot])
    return 1.0 if math.isnan(running) else running / w.endpoints[slot].sequences_max


def reused(w: World, slot: int) -> int:
    return oracle._reused_tokens(w, slot)


def share(w: World, slot: int) -> float:
    return reused(w, slot) / w.request.prompt_tokens


def places_cost(w: World, slot: int, hbm: float, recompute: float) -> float:
    """Of prefilling there, with host memory at 10 and SSD at 50."""
    tokens = oracle.tier_tokens(w, slot)
    n = w.request.prompt_tokens
    costs = (*zip(tokens, (hbm, 10, 50), strict=True), (n - sum(tokens), recompute))
    return sum(count * cost for count, cost in costs) / n


def new_tokens(w: World, slot: int) -> int:
    """To be computed where the prompt is computed."""
    return w.request.prompt_tokens - sum(oracle.tier_tokens(w, slot))


def both_phases(w: World, slot: int) -> float:
    return float(w.view.outstanding_prefill_tokens[slot] + w.view.outstanding_decode_tokens[slot])


def own_cost_s(terms: Mapping[str, float]) -> float:
    return terms["ttft_cost"] + terms["tpot_cost"]


def to_decode_s(w: World, source: int, target: int) -> float:
    terms = oracle.pair(w, source, target)
    return terms["transfer_kv"] + terms["decode_ready"] + terms["first_step"]


def ttft_s(w: World, slot: int) -> float:
    return oracle.local(w, slot)["ttft"]


def nominal_s_per_byte(w: World, level: Level) -> float:
    """The slowest path of the level, each link shared by the sources or the targets behind it, whichever are fewer."""
    paths = {
        (p, d): w.topology.path(p, d)
        for p, here in enumerate(w.endpoints)
        for d, there in enumerate(w.endpoints)
        if here.role.prefills and there.role.decodes
    }
    slowest = 0.0
    for path in paths.values():
        for link in path.links if path.level is level else ():
            using = [ends for ends, other in paths.items() if link in other.links]
            sharers = min(len({p for p, _ in using}), len({d for _, d in using}))
            slowest = max(slowest, sharers / float(w.topology.bytes_per_s[link]))
    return slowest


def netkv(w: World, source: int, target: int, full: bool) -> float:
    path, terms = w.topology.path(source, target), oracle.pair(w, source, target)
    per_byte = nominal_s_per_byte(w, path.level)
    if full:
        congestion = max(0.0, 1.0 - 1.0 / oracle._factor(w, path.level))
        per_byte *= (1 + float(w.view.sending[source, path.level])) / (1.0 - congestion)
    moved = (w.request.prompt_tokens - reused(w, target)) * w.endpoints[target].kv_bytes_per_token
    return moved * per_byte + path.latency_s + terms["decode_ready"] + terms["first_step"]


def score(w: World, source: int, target: int) -> float:
    hops = w.topology.path(source, target).level.hops
    queues = float(w.view.prefill_count[source] + w.view.pencilled_count[target])
    return 2 * (utilisation(w, source) + utilisation(w, target)) + 0.5 * queues + 0.25 * hops


def balanced(prefill: OfSlot, decode: OfSlot, whole: OfSlot) -> Loop:
    """Where each half is chosen by a figure of its own."""
    return Loop(whole, prefill, lambda w, source, target: decode(w, target))


def alike(of_slot: OfSlot) -> Loop:
    return balanced(of_slot, of_slot, of_slot)


def reported(*names: str) -> Loop:
    return alike(lambda w, slot: known(sum(float(getattr(w.view, name)[slot]) for name in names)))


PREFILL_TOKENS, DECODE_TOKENS = figure("outstanding_prefill_tokens"), figure("outstanding_decode_tokens")
LOOPS = {
    "least_loaded": balanced(PREFILL_TOKENS, DECODE_TOKENS, both_phases),
    "least_loaded:by=tokens": balanced(PREFILL_TOKENS, DECODE_TOKENS, both_phases),
    "least_loaded:by=requests": alike(requests),
    "least_loaded:by=queue": balanced(figure("prefill_count"), figure("pencilled_count"), figure("prefill_count")),
    "least_loaded:by=sequences": balanced(
        figure("prefill_count"), figure("decode_sequences"), figure("decode_sequences")
    ),
    "least_loaded:by=hbm": alike(lambda w, slot: float(w.view.blocks_in_use[slot]) / w.endpoints[slot].kv_blocks),
    "least_loaded:by=utilisation": alike(utilisation),
    "least_loaded:by=reported_requests": reported("reported_waiting", "reported_running"),
    "least_loaded:by=reported_queue": reported("reported_waiting"),
    "least_loaded:by=reported_hbm": reported("reported_kv_usage"),
    "power_of_two:candidates=99+by=requests": alike(requests),
    "locality": Loop(
        whole=lambda w, slot: (places_cost(w, slot, 0, 200), both_phases(w, slot)),
        prefill=lambda w, slot: (places_cost(w, slot, 0, 200), PREFILL_TOKENS(w, slot)),
        decode=lambda w, _, slot: (80 * (1 - share(w, slot)), DECODE_TOKENS(w, slot)),
    ),
    "locality:local_hbm=9+recompute=3": Loop(
        whole=lambda w, slot: (places_cost(w, slot, 9, 3), both_phases(w, slot)),
        prefill=lambda w, slot: (places_cost(w, slot, 9, 3), PREFILL_TOKENS(w, slot)),
        decode=lambda w, _, slot: (9 * share(w, slot) + 80 * (1 - share(w, slot)), DECODE_TOKENS(w, slot)),
    ),
    "weighted_score:utilisation=2+queue=0.5+hops=0.25": Loop(
        whole=lambda w, slot: 2 * utilisation(w, slot) + 0.5 * float(w.view.prefill_count[slot]), pair=score
    ),
    "mooncake": Loop(
        whole=ttft_s, prefill=ttft_s, decode=lambda w, source, target: oracle.pair(w, source, target)["tpot"]
    ),
    "lmetric": Loop(
        whole=lambda w, slot: (new_tokens(w, slot) * requests(w, slot), new_tokens(w, slot)),
        prefill=lambda w, slot: (new_tokens(w, slot) * float(w.view.prefill_count[slot]), new_tokens(w, slot)),
        decode=lambda w, _, slot: DECODE_TOKENS(w, slot),
    ),
    "netkv": Loop(both_phases, PREFILL_TOKENS, lambda w, p, d: netkv(w, p, d, full=True)),
    "netkv:oracle=static": Loop(both_phases, PREFILL_TOKENS, lambda w, p, d: netkv(w, p, d, full=False)),
    "prefill_then_decode": Loop(ttft_s, ttft_s, to_decode_s),
    "prefill_then_decode:prefill=lmetric+decode=transfer": Loop(
        whole=lambda w, slot: new_tokens(w, slot) * (requests(w, slot) + 1),
        prefill=lambda w, slot: new_tokens(w, slot) * (float(w.view.prefill_count[slot]) + 1),
        decode=to_decode_s,
    ),
    "prefill_then_decode:prefill=load+decode=load": balanced(PREFILL_TOKENS, DECODE_TOKENS, both_phases),
}


def busy(seed: int, whole: bool) -> World:
    """A random world with its counts and reports filled in, some Unknown."""
    rng = np.random.default_rng(seed)
    made = world(rng, mixed_fleet(rng, int(rng.integers(2, 10))))
    slots = len(made.endpoints)

    def counts() -> np.ndarray:
        return rng.integers(0, 4, slots).astype(np.float64)

    def said(figures: np.ndarray) -> np.ndarray:
        return np.where(rng.random(slots) < 0.3, np.nan, figures)

    view = structs.replace(
        made.view,
        prefill_count=counts(),
        decode_count=counts(),
        pencilled_count=counts(),
        foreign_requests=counts(),
        gpu_utilization=said(rng.random(slots)),
        reported_waiting=said(counts()),
        reported_running=said(counts()),
        reported_kv_usage=said(rng.random(slots)),
        sending=rng.integers(0, 4, (slots, len(Level))).astype(np.float64),
    )
    masks = made.masks
    if whole:
        masks = structs.replace(masks, prefill_blocked=np.ones(slots, dtype=bool))
    return replace(made, view=view, masks=masks)


def least(keys: Mapping[int, Key], taken: int) -> bool:
    """Whether `taken` has the smallest key, or one that rounding alone tells from it."""
    of = np.atleast_1d(np.array(keys[taken]))
    smallest = np.atleast_1d(np.array(min(keys.values())))
    return all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12) for a, b in zip(of, smallest, strict=True))


@pytest.mark.mission("B1", "B3", "A6")
@pytest.mark.parametrize("text", LOOPS)
def test_pairs(text: str) -> None:
    for seed in range(40):
        check_pair(text, seed)


def check_pair(text: str, seed: int) -> None:
    made, loop = busy(seed, whole=False), LOOPS[text]
    table = made.table()
    pairs = {ends for ends in oracle.rows(made) if ends[0] != ends[1]}
    if not pairs:
        return
    chance = np.random.default_rng(seed)
    choice = policy(text).choose(made.request, table, Ranking(table, 9), chance)
    source, target = int(table.prefill.slots[choice.i]), int(table.decode.slots[choice.j])
    assert (source, target) in pairs
    if loop.pair is not None:
        places = dict(enumerate(sorted(pairs)))
        keys = {n: loop.pair(made, *ends) for n, ends in places.items()}
        assert least(keys, next(n for n, ends in places.items() if ends == (source, target)))
        return
    assert loop.prefill is not None
    assert loop.decode is not None
    assert least({p: loop.prefill(made, p) for p, _ in pairs}, source)
    assert least({d: loop.decode(made, source, d) for p, d in pairs if p == source}, target)


@pytest.mark.mission("B1", "B2")
@pytest.mark.parametrize("text", LOOPS)
def test_whole_requests(text: str) -> None:
    for seed in range(25):
        check_whole(text, seed)


def check_whole(text: str, seed: int) -> None:
    made = busy(seed, whole=True)
    table = made.table()
    slots = [target for target, _ in oracle.rows(made)]
    if not slots:
        return
    choice = policy(text).choose_whole(made.request, table, Ranking(table, 9), np.random.default_rng(seed))
    assert choice.i == table.local_row
    assert least({slot: LOOPS[text].whole(made, slot) for slot in slots}, int(table.decode.slots[choice.j]))


@pytest.mark.mission("C6")
@pytest.mark.parametrize(("by", "key"), [("ttft", lambda terms: terms["ttft"]), ("cost", own_cost_s)])
@pytest.mark.parametrize("local", ["no", "yes"])
@pytest.mark.parametrize("whole", [False, True])
def test_selfish_takes_the_best_for_itself(by: str, key: OfTerms, local: str, whole: bool) -> None:
    for seed in range(40):
        check_selfish(f"selfish:by={by}+local={local}", key, local == "yes" or whole, whole, seed)


def check_selfish(text: str, key: OfTerms, local: bool, whole: bool, seed: int) -> None:
    made = busy(seed, whole)
    table = made.table()
    rows = {ends: terms for ends, terms in oracle.rows(made).items() if local or ends[0] != ends[1]}
    if not rows or (not whole and not table.serving.any()):
        return
    how = policy(text)
    choice = (how.choose_whole if whole else how.choose)(
        made.request, table, Ranking(table, 9), np.random.default_rng(seed)
    )
    target = int(table.decode.slots[choice.j])
    source = target if choice.i == table.local_row else int(table.prefill.slots[choice.i])
    assert key(rows[source, target]) == pytest.approx(min(map(key, rows.values())), rel=1e-9, abs=1e-12)


def test_worlds_are_worth_testing() -> None:
    """Most worlds have a choice of both kinds, and no two rules of the table always agree on it."""
    choices: dict[str, list[tuple[int, int] | None]] = {}
    for text in LOOPS:
        choices[text] = []
        for seed in range(40):
            table = (made := busy(seed, whole=False)).table()
            taken = None
            if table.serving.any():
                choice = policy(text).choose(made.request, table, Ranking(table, 9), np.random.default_rng(seed))
                taken = (choice.i, choice.j)
            choices[text].append(taken)
    some = next(iter(choices.values()))
    assert sum(taken is not None for taken in some) > 20
    alike = [(a, b) for a in choices for b in choices if a < b and choices[a] == choices[b]]
    assert set(alike) == {
        ("least_loaded", "least_loaded:by=tokens"),
        ("least_loaded", "prefill_then_decode:prefill=load+decode=load"),
        ("least_loaded:by=tokens", "prefill_then_decode:prefill=load+decode=load"),
    }


def test_every_policy_with_a_formula_is_here() -> None:
    others = {"cost", "affinity", "decode_first", "prefill_first", "static_groups", "round_robin", "random", "selfish"}
    assert {text.partition(":")[0] for text in LOOPS} == set(POLICIES) - others
