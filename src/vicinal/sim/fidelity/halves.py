"""Fit the engine model on one half of a measured run and predict the other half."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from statistics import fmean, median

import numpy as np

from vicinal.enginemodel.drive import serve
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fitting import Fitted, Served, first_guess, fit_engine
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.work import Finished, Work
from vicinal.sim.fidelity.contents import name_contents
from vicinal.sim.fidelity.errors import Errors, errors_of
from vicinal.sim.fidelity.measured import MeasuredRun


class Split(Enum):
    """How the known half is chosen.

    TIME: those that arrived first. Nothing after them helps the fit, but the load may be another one by then.
    PARITY: every other one. Both halves have the same load, but they shared steps.
    """

    TIME = "by time"
    PARITY = "every other"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """Requests whose mean batch was measured to be between the limits: median TPOT as measured and as predicted."""

    batch_min: int
    batch_max: int
    requests: int
    measured_s: float
    predicted_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """How the half that was not fitted to was predicted. `prefill` is from scheduled to first token, `tpot` from the
    first token on per further token, `ttft` the mean from arrival to first token."""

    run: str
    split: Split
    fitted: Fitted
    prefill: Errors
    tpot: Errors
    ttft_measured_s: float
    ttft_predicted_s: float
    by_batch: tuple[BatchRow, ...]

    @property
    def ttft_error(self) -> float:
        return self.ttft_predicted_s / self.ttft_measured_s - 1


BATCH_LIMITS = (1, 32, 64, 96, 128, 192, 256)


def predict(run: MeasuredRun, prompts: Sequence[Sequence[int]], split: Split) -> Prediction:
    """Fit on one half, let the engine model serve the whole run from its first arrival on, and compare the other."""
    served = served_by(run, prompts)
    half = len(served) // 2
    known = served[:half] if split is Split.TIME else served[::2]
    spec = spec_of(run, served)
    fitted = fit_engine(run.name, f"fitted to half of {run.name}", served, {s.id for s in known}, spec)
    lives = serve(Engine(fitted.of(spec)), ((s.arrived_s, s.work) for s in served))
    others = [(s, lives[s.id]) for s in served if s not in known]
    return Prediction(
        run=run.name,
        split=split,
        fitted=fitted,
        prefill=errors_of([(m.first_token_s - m.started_s) / (s.first_token_s - s.started_s) - 1 for s, m in others]),
        tpot=errors_of([(m.finished_s - m.first_token_s) / (s.finished_s - s.first_token_s) - 1 for s, m in others]),
        ttft_measured_s=fmean(s.first_token_s - s.arrived_s for s, _ in others),
        ttft_predicted_s=fmean(m.first_token_s - m.arrived_s for _, m in others),
        by_batch=_by_batch(others, served),
    )


def spec_of(run: MeasuredRun, served: Sequence[Served]) -> EngineSpec:
    """What the run's arguments say. Where its number of blocks is not known, there are enough for every sequence."""
    longest = max(r.input_toks + r.output_toks for r in run.requests)
    return EngineSpec(
        timing=first_guess(run.name, served),
        blocks=run.blocks or run.sequences_max * (1 + longest // run.block_tokens),
        block_tokens=run.block_tokens,
        sequences_max=run.sequences_max,
        batched_tokens_max=run.batched_tokens_max,
        async_scheduling=run.async_scheduling,
    )


def served_by(run: MeasuredRun, prompts: Sequence[Sequence[int]]) -> list[Served]:
    """The run's requests in order of arrival, in seconds since the first of them."""
    contents = name_contents(run.requests, prompts, run.block_tokens)
    start_s = run.requests[0].arrival_time - run.clock_offset_s
    return [
        Served(
            work=Work(r.request_id, contents[r.request_id]),
            arrived_s=r.arrival_time - run.clock_offset_s - start_s,
            started_s=r.scheduled_ts - start_s,
            first_token_s=r.first_token_ts - start_s,
            finished_s=r.last_token_ts - start_s,
        )
        for r in run.requests
    ]


def _by_batch(others: Sequence[tuple[Served, Finished]], served: Sequence[Served]) -> tuple[BatchRow, ...]:
    first_s = np.array([s.first_token_s for s in served])
    last_s = np.array([s.finished_s for s in served])
    batches, measured, predicted = [], [], []
    for s, model in others:
        together_s = np.minimum(last_s, s.finished_s) - np.maximum(first_s, s.first_token_s)
        batches.append(float(np.maximum(together_s, 0.0).sum()) / (s.finished_s - s.first_token_s))
        steps = s.work.content.output_tokens - 1
        measured.append((s.finished_s - s.first_token_s) / steps)
        predicted.append((model.finished_s - model.first_token_s) / steps)
    rows = []
    for low, high in pairwise(BATCH_LIMITS):
        inside = [i for i, batch in enumerate(batches) if low <= batch < high]
        if inside:
            rows.append(
                BatchRow(
                    low, high, len(inside), median(measured[i] for i in inside), median(predicted[i] for i in inside)
                )
            )
    return tuple(rows)
