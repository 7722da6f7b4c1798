"""The statistics that made workloads claim, within what a sample of that size allows."""

from collections import Counter

import numpy as np
import pytest

from tests.workload.made import VOCABULARY, every_turn, mean_is, names, seen_share
from vicinal.workload import hot_tenant as hot_tenants
from vicinal.workload.arrival import Arrival
from vicinal.workload.generators import generate
from vicinal.workload.lengths import Exponential, Fixed, Lognormal, draw_tokens, zipf, zipf_shares
from vicinal.workload.times import renewals_s


def made(name: str, **arguments) -> list[Arrival]:
    return list(every_turn(generate(name, VOCABULARY, **arguments)))


def prompts(arrivals: list[Arrival]) -> list[int]:
    return [arrival.prompt_tokens for arrival in arrivals]


def outputs(arrivals: list[Arrival]) -> list[int]:
    return [arrival.output_tokens for arrival in arrivals]


def split(arrivals: list[Arrival], kind: str) -> tuple[list[Arrival], list[Arrival]]:
    """Those whose session is named so, and the others."""
    named = [(a.session or "").startswith(kind) for a in arrivals]
    return [a for a, of in zip(arrivals, named, strict=True) if of], [
        a for a, of in zip(arrivals, named, strict=True) if not of
    ]


@pytest.mark.parametrize("cv", [0.5, 1.0, 2.5])
def test_gaps_have_their_mean_and_variation(cv: float) -> None:
    times_s = renewals_s(np.random.default_rng(1), rate=4.0, cv=cv, from_s=10.0)
    gaps_s = np.diff([10.0, *(next(times_s) for _ in range(40_000))])
    assert gaps_s.mean() == pytest.approx(0.25, abs=5 * 0.25 * cv / np.sqrt(len(gaps_s)))
    # The variance of a Gamma sample's variance: (kurtosis - 1) / n, with kurtosis 3 + 6 cv^2.
    assert gaps_s.var() == pytest.approx((0.25 * cv) ** 2, rel=5 * np.sqrt((2 + 6 * cv**2) / len(gaps_s)))


def test_gaps_without_variation_are_equal() -> None:
    times_s = renewals_s(np.random.default_rng(1), rate=4.0, cv=0.0)
    assert [next(times_s) for _ in range(3)] == [0.25, 0.5, 0.75]


def test_lengths_have_their_means() -> None:
    stream = np.random.default_rng(2)
    assert {Fixed(7.4).draw(stream) for _ in range(3)} == {7.4}
    assert mean_is([Exponential(30.0).draw(stream) for _ in range(20_000)], 30.0)
    assert mean_is([Lognormal(100.0, 0.5, 1e9).draw(stream) for _ in range(20_000)], 100 * np.exp(0.125))
    assert max(Lognormal(100.0, 2.0, 300).draw(stream) for _ in range(200)) == 300
    assert draw_tokens(Fixed(0.1), stream) == 1


def test_zipf_draws_as_it_says() -> None:
    draw, stream, sample = zipf(6, 1.3), np.random.default_rng(3), 20_000
    counts = Counter(draw(stream) for _ in range(sample))
    for kind, part in enumerate(zipf_shares(6, 1.3)):
        assert abs(counts[kind] - sample * part) < 5 * np.sqrt(sample * part * (1 - part))
    assert zipf_shares(4, 0.0).tolist() == [0.25] * 4
    assert zipf_shares(3)[0] / zipf_shares(3)[2] == pytest.approx(3.0)


def test_tool_agents() -> None:
    arrivals = made("tool_agent", count=20_000)
    calls = Counter(arrival.session for arrival in arrivals).values()
    assert mean_is(list(calls), 22.5)
    # Prompts of a session are alike: the error is that of a few hundred draws, not of thousands.
    assert mean_is(prompts(arrivals), 8_800, rounding=0.03)
    assert np.percentile(prompts(arrivals), 95) == pytest.approx(14_800, rel=0.05)
    assert mean_is(outputs(arrivals), 182)
    assert seen_share(arrivals[:4000]) == pytest.approx(0.97, abs=0.01)
    kinds = Counter({a.session: a.tenant for a in arrivals}.values())
    assert kinds["agent-0"] / sum(kinds.values()) == pytest.approx(2 / 3, abs=5 * np.sqrt(2 / 9 / sum(kinds.values())))
    assert {a.prompt.pieces[0].tokens for a in arrivals} == {6144, 2560}
    gaps_s = [turn.pause_s for a in generate("tool_agent", VOCABULARY, count=5000) for turn in a.later]
    assert np.median(gaps_s) == pytest.approx(1.1, rel=0.08)


def test_shared_system_prompts_go_round() -> None:
    """llm-d's prompts: in the first round a group's prefix is new once in five, later nothing is."""
    arrivals = made("shared_system_prompts", count=1500)
    assert seen_share(arrivals[:750]) == pytest.approx((750 - 150) * 6000 / (750 * 7200))
    assert seen_share(arrivals) == pytest.approx((600 * 6000 + 750 * 7200) / (1500 * 7200))
    assert {(a.prompt_tokens, a.output_tokens) for a in arrivals} == {(7200, 1000)}
    assert set(Counter(a.tenant for a in arrivals).values()) == {10}
    assert [a.prompt for a in arrivals[:750]] == [a.prompt for a in arrivals[750:]]
    small = made("shared_system_prompts", count=12, parameters={"groups": "2", "users": "3", "prefix_tokens": "32"})
    assert len({a.prompt for a in small}) == 6
    assert len({a.prompt.pieces[0] for a in small}) == 2


@pytest.mark.mission("B4")
def test_short_requests_are_the_same_whatever_is_between_them() -> None:
    arrivals = made("short_and_long", count=20_000)
    long, short = split(arrivals, "long-")
    alone = {a.session: a for a in made("short_and_long", count=20_000, parameters={"long_share": "0"})}
    assert all(alone[a.session] == a for a in short)
    assert len(long) == pytest.approx(400, abs=5 * np.sqrt(20_000 * 0.02 * 0.98))
    assert mean_is(prompts(short), 1_155, rounding=0.04)
    assert np.percentile(prompts(short), 95) == pytest.approx(4_083, rel=0.06)
    assert mean_is(outputs(arrivals), 211)
    assert np.median(prompts(long)) == pytest.approx(81_920, rel=0.05)
    assert min(prompts(long)) > max(prompts(short))
    assert seen_share(arrivals[:300]) == 0


@pytest.mark.mission("B6")
def test_a_flood_leaves_everybody_else_as_they_were() -> None:
    calm = made("hot_tenant", duration_s=200.0, parameters={"flood": "0"})
    flooded = made("hot_tenant", duration_s=200.0)
    flood, others = split(flooded, "flood-")
    assert others == calm
    assert {a.tenant for a in flood} == {"tenant-3"}
    assert all(60 <= a.at_s < 120 for a in flood)
    assert len(flood) == pytest.approx(2 * 10 * 60, abs=5 * np.sqrt(1200))
    system = next(a.prompt.pieces[0] for a in calm if a.tenant == "tenant-3")
    assert {a.prompt.pieces[0] for a in flood} == {system}


@pytest.mark.mission("B6")
def test_tenants_are_unequal_and_bursty() -> None:
    arrivals = made("hot_tenant", duration_s=4000.0, parameters={"flood": "0"})
    counts = Counter(a.tenant for a in arrivals)
    for tenant, part in enumerate(zipf_shares(27)):
        expected = 4000 * 10 * part
        assert abs(counts[f"tenant-{tenant}"] - expected) < 5 * 2.5 * np.sqrt(expected)
    assert sum(zipf_shares(27)[:2]) == pytest.approx(0.38, abs=0.01)
    assert sum(zipf_shares(27)[:10]) == pytest.approx(0.75, abs=0.01)
    gaps_s = np.diff([a.at_s for a in arrivals if a.tenant == "tenant-0"])
    assert gaps_s.std() / gaps_s.mean() == pytest.approx(2.5, rel=0.12)
    assert mean_is(prompts(arrivals), 1_341, rounding=0.02)
    assert mean_is(outputs(arrivals), 156)
    assert np.median(outputs(arrivals)) == pytest.approx(45, rel=0.04)
    assert np.percentile(outputs(arrivals), 95) == pytest.approx(587, rel=0.06)
    systems = {(a.tenant, a.prompt.pieces[0]) for a in arrivals}
    assert len(systems) == len({piece for _, piece in systems}) == hot_tenants.Shape().tenants


@pytest.mark.mission("B8")
def test_a_prefix_becomes_hot_at_once_and_cools_down() -> None:
    calm = made("hot_prefix", duration_s=300.0, rate=20.0, parameters={"hot": "0"})
    crowded = made("hot_prefix", duration_s=300.0, rate=20.0)
    hot, others = split(crowded, "hot-")
    assert others == calm
    assert all(60 <= a.at_s < 180 for a in hot)
    assert hot[0].at_s < 62
    assert len(hot) == pytest.approx(2 * 20 * 120, abs=5 * np.sqrt(4800))
    assert len({a.prompt.pieces[0] for a in hot}) == 1
    assert {a.prompt.pieces[0] for a in hot}.isdisjoint(a.prompt.pieces[0] for a in calm)
    prefix = names(hot[0])[: 6144 // 16]
    assert len(prefix) == 384
    assert all(names(a)[:384] == prefix for a in hot)
    assert mean_is([a.prompt_tokens - 6144 for a in hot], 608, rounding=0.02)
    assert np.median(outputs(crowded)) == pytest.approx(20, abs=1)


def test_two_models_have_their_own_loads() -> None:
    arrivals = made("two_models", count=40_000)
    chat, reasoning = ([a for a in arrivals if a.model == model] for model in ("chat", "reasoning"))
    assert len(chat) + len(reasoning) == len(arrivals)
    assert len(reasoning) / len(arrivals) == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / len(arrivals)))
    assert mean_is(prompts(chat), 1_341)
    assert mean_is(outputs(chat), 156)
    assert mean_is(prompts(reasoning), 1_058)
    assert mean_is(outputs(reasoning), 728)
    assert np.percentile(prompts(reasoning), 95) == pytest.approx(3_276, rel=0.05)
    assert np.percentile(outputs(reasoning), 95) == pytest.approx(1_580, rel=0.05)
    assert seen_share(arrivals[:500]) == 0
    alone = made("two_models", count=50, parameters={"second_share": "0", "first_model": "m"})
    assert {a.model for a in alone} == {"m"}


def test_independent_requests_are_for_theory() -> None:
    fixed = made("independent", count=200, parameters={"cv": "0"})
    assert {(a.prompt_tokens, a.output_tokens) for a in fixed} == {(1024, 128)}
    assert [a.at_s for a in fixed] == [float(n) for n in range(1, 201)]
    drawn = made("independent", count=20_000, parameters={"prompt_tokens": "exponential/500", "cv": "2"})
    lengths = prompts(drawn)
    assert mean_is(lengths, 500)
    assert np.std(lengths) / np.mean(lengths) == pytest.approx(1.0, rel=5 * np.sqrt(2 / len(lengths)) + 0.01)
    gaps_s = np.diff([a.at_s for a in drawn])
    # A gap says nothing about the next one, nor about the length that comes with it.
    assert abs(np.corrcoef(gaps_s[:-1], gaps_s[1:])[0, 1]) < 5 / np.sqrt(len(gaps_s))
    assert abs(np.corrcoef(gaps_s, lengths[1:])[0, 1]) < 5 / np.sqrt(len(gaps_s))
    assert seen_share(drawn[:500]) == 0
