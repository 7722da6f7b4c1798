"""What an engine computed between two moments, as the six amounts that a `Fit`'s figures multiply."""

from bisect import bisect_right

import numpy as np

from vicinal.enginemodel.fit import Fit, Floats
from vicinal.enginemodel.steps import Step
from vicinal.enginemodel.timing import Chunk

FIGURES = (
    "prefill_base_s",
    "prefill_s_per_token",
    "prefill_s_per_pair",
    "step_base_s",
    "step_s_per_sequence",
    "step_s_per_context_token",
)
"""The figures in the order of the amounts: seconds = amounts . figures, wherever a chunk outweighs a step's base."""


class StepLog:
    """Watches an engine (its `watch`). Moments asked about must be ends of stretches or lie where it was idle."""

    def __init__(self) -> None:
        self._ends_s: list[float] = []
        self._sums: list[Floats] = [np.zeros(len(FIGURES))]

    def __call__(self, step: Step, count: int, ends_s: float) -> None:
        batch, context = len(step.decodes), step.context_tokens
        if step.chunks:
            chunks = [Chunk(s.computed, s.computed + tokens) for s, tokens in step.chunks]
            tokens, pairs = sum(c.tokens for c in chunks), sum(c.pairs for c in chunks)
            row = np.array((1.0, tokens, pairs, 0.0, batch, context))
        else:
            read = count * context + batch * count * (count - 1) / 2
            row = np.array((0.0, 0.0, 0.0, count, count * batch, read))
        self._ends_s.append(ends_s)
        self._sums.append(self._sums[-1] + row)

    def between(self, from_s: float, to_s: float) -> Floats:
        """Amounts of the steps that ended after `from_s` and not after `to_s`."""
        return self._sums[bisect_right(self._ends_s, to_s)] - self._sums[bisect_right(self._ends_s, from_s)]


def fit_of(name: str, source: str, figures: Floats) -> Fit:
    return Fit(name=name, source=source, **dict(zip(FIGURES, map(float, figures), strict=True)))
