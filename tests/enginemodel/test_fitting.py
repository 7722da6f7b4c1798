"""Figures that are fitted to an engine's stamps are the engine's figures."""

from dataclasses import replace
from random import Random

import pytest

from vicinal.enginemodel.content import Named
from vicinal.enginemodel.drive import serve
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.fitting import Served, first_guess, fit_engine
from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.profiles import profile
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.steplog import FIGURES, StepLog
from vicinal.enginemodel.work import Work

TRUE = replace(profile("llama-3.1-8b-h100-tp1-vllm"), prefill_base_s=0.007)
"""A step with a chunk takes longer than one without, however small the chunk; else a base of it could not be seen."""
SPEC = EngineSpec(TRUE, 20_000, 16, sequences_max=64, batched_tokens_max=1024, async_scheduling=True, warm_up_s=0.05)


def works(count: int, seed: int) -> list[tuple[float, Work]]:
    stream = Random(seed)
    at_s, arrivals = 0.0, []
    for i in range(count):
        at_s += stream.expovariate(12.0)
        prompt, output = stream.randint(50, 3000), stream.randint(1, 200)
        keys = [1_000_000 * i + k for k in range((prompt + output) // 16)]
        arrivals.append((at_s, Work(f"w{i}", Named(keys, prompt, output))))
    return arrivals


def observed(spec: EngineSpec, arrivals: list[tuple[float, Work]], noise: Noise | None = None) -> list[Served]:
    lives = serve(Engine(spec, noise), arrivals)
    return [
        Served(w, at_s, lives[w.id].started_s, lives[w.id].first_token_s, lives[w.id].finished_s)
        for at_s, w in arrivals
    ]


@pytest.mark.mission("C2")
def test_the_figures_of_a_known_engine_are_found_from_half_of_its_requests() -> None:
    served = observed(SPEC, works(120, 1))
    start = replace(SPEC, timing=first_guess("x", served), warm_up_s=0.0)
    fitted = fit_engine("x", "this test", served, {s.id for s in served[:60]}, start)
    for figure in FIGURES:
        assert getattr(fitted.fit, figure) == pytest.approx(getattr(TRUE, figure), rel=1e-3), figure
    assert fitted.warm_up_s == pytest.approx(0.05, rel=1e-3)
    assert fitted.error < 1e-6
    again = observed(fitted.of(SPEC), works(120, 1))
    assert [s.finished_s for s in again[60:]] == pytest.approx([s.finished_s for s in served[60:]], rel=1e-3)


def test_noise_on_every_batch_is_averaged_out() -> None:
    served = observed(SPEC, works(200, 2), Noise(0.05, Random(5)))
    start = replace(SPEC, timing=first_guess("x", served), warm_up_s=0.0)
    fit = fit_engine("x", "this test", served, {s.id for s in served}, start).fit
    for batch, context in ((1, 1000), (16, 16_000), (48, 60_000)):
        assert fit.step_s(float(batch), float(context)) == pytest.approx(TRUE.step_s(batch, context), rel=0.1)
    for prompt in (300.0, 1000.0):
        assert fit.prefill_s(prompt, 0.0) == pytest.approx(TRUE.prefill_s(prompt, 0.0), rel=0.1)


def test_nothing_to_fit_to_is_refused() -> None:
    served = observed(SPEC, [(0.0, Work("a", Named([], 10, 1)))])
    with pytest.raises(ValueError, match="two output tokens"):
        fit_engine("x", "this test", served, {"a"}, SPEC)


def test_a_log_counts_what_the_figures_multiply() -> None:
    """Seconds of a busy engine are the amounts times its figures, stretch by stretch."""
    flat = Fit("flat", 3.0, 0.01, 0.0001, 0.5, 0.02, 0.001, "made up: a chunk outweighs a step's base")
    log = StepLog()
    lives = serve(Engine(replace(SPEC, timing=flat, warm_up_s=0.0), watch=log), works(30, 3))
    amounts = [(log.between(f.first_token_s, f.finished_s), f.finished_s - f.first_token_s) for f in lives.values()]
    figures = [getattr(flat, name) for name in FIGURES]
    assert [float(row @ figures) for row, _ in amounts] == pytest.approx([seconds for _, seconds in amounts])
    assert sum(f.output_tokens for f in lives.values()) > 30
