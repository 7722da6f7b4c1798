"""What steps cost: measured grids are met, pieces sum to single steps, and noise belongs to batches, not to looks."""

from collections.abc import Callable
from math import exp, log
from random import Random
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.enginemodel.content import Text
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.grid import Grid, truth
from vicinal.enginemodel.gridfigures import BATCHES, CONTEXTS, DECODE_MS, PREFILL_MS, PROMPT_TOKENS
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.profiles import NAMES, UnknownProfileError, profile
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.steps import Step
from vicinal.enginemodel.timing import Chunk, Timing
from vicinal.enginemodel.work import Finished, Output, Work

GRIDS = {name: truth(name) for name in NAMES}
TIMINGS: list[Timing] = [GRIDS["llama-3.1-70b-h100-tp8-vllm"], GRIDS["deepseek-v3-h200-tp8-sglang"]]
TIMINGS += [profile("llama-3.1-70b-h100-tp8-vllm"), Fit("unit", 1.0, 0.01, 0.0001, 0.1, 0.02, 0.001, "made up")]
timings = st.sampled_from(TIMINGS)
batches = st.integers(1, 400)
means = st.integers(1, 150_000)


def test_every_profile_has_a_grid_of_the_sources_shape() -> None:
    assert set(PREFILL_MS) == set(DECODE_MS) == set(NAMES)
    for name in NAMES:
        assert len(PREFILL_MS[name]) == len(PROMPT_TOKENS)
        assert [len(row) for row in DECODE_MS[name]] == [7] * 7 + [6, 5]
    with pytest.raises(UnknownProfileError):
        truth("llama-3.1-70b-h100-tp8")


@pytest.mark.parametrize("name", NAMES)
def test_a_grid_gives_its_own_points(name: str) -> None:
    grid = GRIDS[name]
    for tokens, ms in zip(PROMPT_TOKENS, PREFILL_MS[name], strict=True):
        assert grid.mixed_s([Chunk(0, tokens)], 0, 0) == pytest.approx(ms * 1e-3, rel=1e-12)
    for batch, row in zip(BATCHES, DECODE_MS[name], strict=True):
        for context, ms in zip(CONTEXTS, row, strict=False):
            # One point of all 780 lies 0.07 % under its left neighbour and is raised to it.
            assert grid.decode(batch, batch * context).first_s == pytest.approx(ms * 1e-3, rel=8e-4)


@pytest.mark.parametrize("name", NAMES)
def test_the_fit_is_an_honest_but_different_belief(name: str) -> None:
    """The documented errors of the fits: 27 % for the worst decode step, and no grid that the fit repeats."""
    fit, grid = profile(name), GRIDS[name]
    errors = [
        abs(fit.step_s(float(b), float(b * c)) / grid.decode(b, b * c).first_s - 1)
        for b, row in zip(BATCHES, DECODE_MS[name], strict=True)
        for c in CONTEXTS[: len(row)]
    ]
    assert 0.005 < fmean(errors) < 0.10
    assert max(errors) < 0.28


@given(timings, batches, means, st.integers(0, 5000))
def test_more_context_never_makes_a_step_shorter(timing: Timing, batch: int, mean: int, more: int) -> None:
    context = batch * mean
    assert timing.decode(batch, context + more).first_s >= timing.decode(batch, context).first_s * (1 - 1e-12)
    assert timing.decode(batch, context).growth_s >= 0.0


@given(st.sampled_from(NAMES), batches, means)
def test_between_measured_batches_a_step_lies_between_them(name: str, batch: int, mean: int) -> None:
    grid = GRIDS[name]
    lower = max(b for b in BATCHES if b <= batch)
    upper = min((b for b in BATCHES if b >= batch), default=None)
    step_s = grid.decode(batch, batch * mean).first_s
    at_lower_s = grid.decode(lower, lower * mean).first_s
    if upper is None:
        assert step_s > at_lower_s
    else:
        at_upper_s = grid.decode(upper, upper * mean).first_s
        assert min(at_lower_s, at_upper_s) * (1 - 1e-12) <= step_s <= max(at_lower_s, at_upper_s) * (1 + 1e-12)


chunks = st.tuples(st.integers(0, 60_000), st.integers(1, 9000)).map(lambda c: Chunk(c[0], c[0] + c[1]))


@given(timings, st.lists(chunks, min_size=1, max_size=4), st.integers(0, 300), means, chunks)
def test_a_mixed_step_costs_at_least_its_parts_and_grows_with_them(
    timing: Timing, some: list[Chunk], batch: int, mean: int, more: Chunk
) -> None:
    mixed_s = timing.mixed_s(some, batch, batch * mean)
    assert mixed_s >= timing.mixed_s(some, 0, 0) * (1 - 1e-12)
    assert timing.mixed_s([*some, more], batch, batch * mean) >= mixed_s * (1 - 1e-12)
    if batch:
        assert mixed_s >= timing.decode(batch, batch * mean).first_s * (1 - 1e-12)
        separately_s = timing.mixed_s(some, 0, 0) + timing.decode(batch, batch * mean).first_s
        assert mixed_s <= separately_s * (1 + 1e-9)


@given(timings, st.lists(st.integers(1, 5000), min_size=1, max_size=6), st.integers(0, 20_000))
def test_cutting_a_prompt_adds_at_most_a_step_of_one_token_per_cut(
    timing: Timing, sizes: list[int], cached: int
) -> None:
    """Attention and matrix products add up; what each further step costs is reading the weights once more."""
    ends = [cached + sum(sizes[: i + 1]) for i in range(len(sizes))]
    cut = [Chunk(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    whole_s = timing.mixed_s([Chunk(cached, ends[-1])], 0, 0)
    cut_s = sum(timing.mixed_s([chunk], 0, 0) for chunk in cut)
    assert sum(c.pairs for c in cut) == Chunk(cached, ends[-1]).pairs
    assert timing.mixed_s(cut, 0, 0) == pytest.approx(whole_s, rel=1e-12)
    if isinstance(timing, Fit):
        assert cut_s == pytest.approx(whole_s + (len(cut) - 1) * timing.prefill_base_s, rel=1e-12)
    else:
        assert cut_s >= whole_s * 0.98


def step_of(timing: Timing, batch: int, context: int) -> Step:
    # The pace of a step needs only how many sequences there are.
    return Step(5.0, timing, context, [timing.decode(batch, context)], 1.0, [None] * batch, [])  # type: ignore[list-item]


@given(timings, st.integers(1, 300), means, st.integers(1, 600))
def test_a_leap_is_its_steps_one_by_one(timing: Timing, batch: int, mean: int, steps: int) -> None:
    context = batch * mean + batch // 3
    one_by_one_s = sum(timing.decode(batch, context + k * batch).first_s for k in range(steps))
    assert step_of(timing, batch, context).ends_after_s(steps) == pytest.approx(5.0 + one_by_one_s, rel=1e-9)


@given(timings, st.integers(1, 300), means, st.floats(0.0, 200.0), st.integers(1, 5000))
def test_steps_until_is_the_last_that_ends_in_time(
    timing: Timing, batch: int, mean: int, span_s: float, at_most: int
) -> None:
    step = step_of(timing, batch, batch * mean)
    steps = step.steps_until(5.0 + span_s, at_most)
    assert 1 <= steps <= at_most
    assert steps == 1 or step.ends_after_s(steps) <= 5.0 + span_s
    assert steps == at_most or step.ends_after_s(steps + 1) > 5.0 + span_s


def test_a_leap_asks_for_a_piece_per_measured_context_not_per_token() -> None:
    asked: list[int] = []

    class Counting:
        def decode(self, sequences: int, context_tokens: int) -> Any:
            asked.append(context_tokens)
            return GRIDS["qwen3-8b-h100-tp1-vllm"].decode(sequences, context_tokens)

        mixed_s = GRIDS["qwen3-8b-h100-tp1-vllm"].mixed_s

    step = step_of(Counting(), 4, 4)
    step.ends_after_s(100_000)
    step.steps_until(1e9, 100_000)
    assert len(asked) <= len(CONTEXTS)


@pytest.mark.parametrize("sigma", [0.05, 0.5])
def test_noise_has_mean_one_and_its_sigma(sigma: float) -> None:
    noise = Noise(sigma, Random(7))
    factors = [noise.factor() for _ in range(20_000)]
    # Four standard errors of the mean and of the deviation.
    spread = (exp(sigma * sigma) - 1) ** 0.5
    assert fmean(factors) == pytest.approx(1.0, abs=4 * spread / 20_000**0.5)
    assert stdev(map(log, factors)) == pytest.approx(sigma, rel=4 / 40_000**0.5)


def test_no_noise_draws_nothing_and_a_negative_one_is_refused() -> None:
    stream = Random(1)
    assert Noise(0.0, stream).factor() == 1.0
    assert stream.random() == Random(1).random()
    with pytest.raises(ValueError, match=r"sigma is -0\.1"):
        Noise(-0.1, stream)


def _work(name: str, prompt: int, output: int) -> Work:
    seed = sum(map(ord, name))
    tokens = b"".join((seed * 7919 + i).to_bytes(4, "little") for i in range(prompt))
    return Work(name, Text(tokens, b"\1\2\3\4" * output))


def _finish_times(advance: Callable[[Engine], list[Output]]) -> dict[str, float]:
    engine = Engine(EngineSpec(truth("qwen3-8b-h100-tp1-vllm"), 60, 16, batched_tokens_max=256), Noise(0.2, Random(3)))
    for i in range(6):
        engine.submit(_work(f"w{i}", 40 + 70 * i, 30 + 25 * i), 0.0)
    times = {o.id: o.finished_s for o in advance(engine) if isinstance(o, Finished)}
    assert engine.counters.preemptions
    return times


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=60))
def test_how_often_somebody_looks_changes_no_noise(gaps_s: list[float]) -> None:
    def in_slices(engine: Engine) -> list[Output]:
        outputs: list[Output] = []
        now = 0.0
        for gap_s in gaps_s:
            now += gap_s
            outputs += engine.advance(now)
        return outputs + engine.advance(1e6)

    at_once = _finish_times(lambda engine: engine.advance(1e6))
    assert len(at_once) == 6
    assert _finish_times(in_slices) == {name: pytest.approx(at_s, rel=1e-9) for name, at_s in at_once.items()}


def test_an_engine_on_a_grid_prefills_and_decodes_as_measured() -> None:
    grid: Grid = truth("llama-3.1-70b-h100-tp8-vllm")
    engine = Engine(EngineSpec(grid, 4000, 16))
    engine.submit(_work("a", 8192, 101), 1.0)
    (done,) = (o for o in engine.advance(1e6) if isinstance(o, Finished))
    assert done.first_token_s - 1.0 == pytest.approx(0.344263, rel=1e-9)
    # A hundred steps a little past the measured point of 8,192 tokens, which is 10.435 ms.
    assert (done.finished_s - done.first_token_s) / 100 == pytest.approx(10.435e-3, rel=1e-3)
