"""Fit an engine's figures to when its requests were seen to be scheduled and to get their first and last token.

No step is ever seen, only sums of steps. Which steps they were, the engine model says: it serves the same requests with
the figures so far, and counts for each span (scheduled to first token, first to last token) what its steps computed.
Seconds are linear in the figures, so new ones are the solution of

    seconds of a span = a mixed + b tokens + c pairs + a' decode_only + b' sequences + c' context

in least squares of relative errors, no figure negative, outliers counted less (Huber 1964). New figures give new steps,
so this is repeated until rounds predict no better; the one whose own prediction of the requests was best is kept. A
span to the first token says something only when the same requests got theirs in it in the model: others are left out
of that round.

The first step of a fresh engine also loads its kernels. What the first request took longer for that is `warm_up_s`.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

import numpy as np

from vicinal.enginemodel.drive import serve
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.fit import Fit, Floats
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.steplog import FIGURES, StepLog, fit_of
from vicinal.enginemodel.work import Finished, Work

_PATIENCE = 3
"""Rounds without a better prediction before the best one is taken."""

_BETTER = 0.99
_EXACT = 1e-6
_REWEIGHTINGS = 8
_HUBER = 1.345 * 1.4826
_SAME_S = 0.5e-3
"""Stamps this close are of the same step."""


@dataclass(frozen=True, slots=True)
class Served:
    """A request as a real engine served it. All stamps are seconds on one clock."""

    work: Work
    arrived_s: float
    started_s: float
    first_token_s: float
    finished_s: float

    @property
    def id(self) -> str:
        return self.work.id


@dataclass(frozen=True, slots=True)
class Fitted:
    """`error`: the median relative error of the known requests' spans, as the engine model predicts them with it."""

    fit: Fit
    warm_up_s: float
    error: float

    def of(self, spec: EngineSpec) -> EngineSpec:
        """That engine with these figures."""
        return replace(spec, timing=self.fit, warm_up_s=self.warm_up_s)


def fit_engine(name: str, source: str, served: Sequence[Served], known: Collection[str], spec: EngineSpec) -> Fitted:
    """Fit to the stamps of the requests whose ids are `known`; of the others only arrival and lengths are used.

    `served` is everything that the engine had to do, in order of arrival. `spec` says what the engine is; the search
    starts from its timing, for example `first_guess`. Raises ValueError when no known request has two output tokens.
    """
    requests = [s for s in served if s.id in known]
    if all(s.work.content.output_tokens < 2 for s in requests):
        raise ValueError("no known request has two output tokens: there is nothing to fit to")
    company = _company((s.id, s.started_s, s.first_token_s) for s in requests)
    lives, log = _run(served, spec)
    best, since_best = None, 0
    while since_best < _PATIENCE:
        alike = _company((i, lives[i].started_s, lives[i].first_token_s) for i in company)
        warmed = {s.id for s in requests if s is not served[0] and company[s.id] == alike[s.id]}
        figures = _solve(np.array([row for s in requests for row in _rows(s, lives[s.id], log, s.id in warmed)]))
        warm_up_s = _warm_up_s(served[0], lives[served[0].id], log, figures) if served[0].id in known else 0.0
        fit = fit_of(name, source, figures)
        lives, log = _run(served, replace(spec, timing=fit, warm_up_s=warm_up_s))
        since_best += 1
        error = _error(requests, lives)
        if best is None or error < best.error * _BETTER:
            best, since_best = Fitted(fit, warm_up_s, error), 0
            if error < _EXACT:
                break
    assert best is not None
    return best


def first_guess(name: str, served: Sequence[Served]) -> Fit:
    """Half of the fastest TPOT for a step, and its double for one with a chunk; the fastest prefill per token."""
    step_s = min(
        (s.finished_s - s.first_token_s) / (s.work.content.output_tokens - 1)
        for s in served
        if s.work.content.output_tokens > 1
    )
    token_s = min((s.first_token_s - s.started_s) / s.work.content.prompt_tokens for s in served)
    figures = np.array((step_s, token_s, 0.0, step_s / 2, step_s / 100, step_s / 100_000))
    return fit_of(name, "first guess", figures)


def _run(served: Sequence[Served], spec: EngineSpec) -> tuple[dict[str, Finished], StepLog]:
    log = StepLog()
    return serve(Engine(spec, watch=log), ((s.arrived_s, s.work) for s in served)), log


def _company(spans: Iterable[tuple[str, float, float]]) -> dict[str, frozenset[str]]:
    """For each (id, from, to): whose spans end within it, itself included."""
    listed = sorted(spans, key=lambda span: span[2])
    ends_s = [to_s for _, _, to_s in listed]
    return {
        name: frozenset(
            other
            for other, _, _ in listed[bisect_right(ends_s, from_s + _SAME_S) : bisect_right(ends_s, to_s + _SAME_S)]
        )
        for name, from_s, to_s in listed
    }


def _rows(s: Served, model: Finished, log: StepLog, same_company: bool) -> Iterable[Floats]:
    """Amounts per second of the spans that say something. With the right figures each is worth 1."""
    if same_company:
        yield log.between(model.started_s, model.first_token_s) / (s.first_token_s - s.started_s)
    if s.work.content.output_tokens > 1:
        yield log.between(model.first_token_s, model.finished_s) / (s.finished_s - s.first_token_s)


def _warm_up_s(first: Served, model: Finished, log: StepLog, figures: Floats) -> float:
    warm_s = float(log.between(model.started_s, model.first_token_s) @ figures)
    return max(0.0, first.first_token_s - first.started_s - warm_s)


def _error(requests: Sequence[Served], lives: Mapping[str, Finished]) -> float:
    errors: list[float] = []
    for s in requests:
        model = lives[s.id]
        errors.append(abs((model.first_token_s - model.started_s) / (s.first_token_s - s.started_s) - 1))
        if s.work.content.output_tokens > 1:
            errors.append(abs((model.finished_s - model.first_token_s) / (s.finished_s - s.first_token_s) - 1))
    return median(errors)


def _solve(rows: Floats) -> Floats:
    """Figures >= 0 with rows . figures = 1 as nearly as can be."""
    weights = np.ones(len(rows))
    figures = np.zeros(len(FIGURES))
    for _ in range(_REWEIGHTINGS):
        figures = _not_negative(rows * weights[:, None], weights)
        misses = np.abs(rows @ figures - 1)
        limit = max(_HUBER * float(np.median(misses)), 1e-12)
        weights = np.sqrt(limit / np.maximum(misses, limit))
    return figures


def _not_negative(rows: Floats, values: Floats) -> Floats:
    """Least squares; whichever figure would be the most negative is left out (0) until none is."""
    scale = np.maximum(np.abs(rows).mean(axis=0), 1e-300)
    used = [column for column in range(rows.shape[1]) if rows[:, column].any()]
    while True:
        solution = np.linalg.lstsq(rows[:, used] / scale[used], values, rcond=None)[0]
        if (solution >= 0).all():
            break
        used.pop(int(np.argmin(solution)))
    figures = np.zeros(rows.shape[1])
    figures[used] = solution / scale[used]
    return figures
