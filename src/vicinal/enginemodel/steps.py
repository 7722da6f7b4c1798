"""How long a step of a batch takes, and how many equal steps fit into a span.

    decode only   a' + b' B + c' ctx                                          (Fit.step_s)
    with chunks   sum over chunks + b' B + c' ctx                             decodes ride along, without their base
    chunk         [a, once per prefill] + b (to - from) + c (to^2 - from^2) / 2

A prefill's chunks add up to exactly Fit.prefill_s(n, p), however it is cut. While the batch stays as it is, every
decode step reads B more tokens of context than the one before, so it is longer by c' B, and m steps take
m d + c' B m (m - 1) / 2 together: a leap over m steps costs no more than one.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from math import floor, sqrt

from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.sequence import Sequence


@dataclass(slots=True)
class Step:
    """The step that is running. Each further one of the same batch would be longer by `growth_s`."""

    started_s: float
    duration_s: float
    growth_s: float
    decodes: list[Sequence]
    chunks: list[tuple[Sequence, int]]

    @property
    def ends_s(self) -> float:
        return self.started_s + self.duration_s

    def ends_after_s(self, steps: int) -> float:
        return self.started_s + steps * self.duration_s + self.growth_s * steps * (steps - 1) / 2

    def steps_until(self, horizon_s: float, at_most: int) -> int:
        """How many such steps end by `horizon_s`: at least 1, because the first has been decided on."""
        half = self.growth_s / 2
        linear = self.duration_s - half
        span_s = max(0.0, horizon_s - self.started_s)
        root = (sqrt(linear * linear + 4 * half * span_s) - linear) / (2 * half) if half else span_s / linear
        steps = max(1, floor(min(at_most, root)))
        # The root is exact only up to rounding, so its neighbours decide.
        while steps < at_most and self.ends_after_s(steps + 1) <= horizon_s:
            steps += 1
        while steps > 1 and self.ends_after_s(steps) > horizon_s:
            steps -= 1
        return steps


def make_step(fit: Fit, at_s: float, decodes: list[Sequence], chunks: list[tuple[Sequence, int]]) -> Step:
    """A step over these sequences; each chunk is (sequence, tokens to compute)."""
    batch = len(decodes)
    context = sum(s.context_tokens for s in decodes)
    if not chunks:
        return Step(
            at_s, fit.step_s(float(batch), float(context)), fit.step_s_per_context_token * batch, decodes, chunks
        )
    duration_s = sum(_chunk_s(fit, s, tokens) for s, tokens in chunks)
    duration_s += fit.step_s_per_sequence * batch + fit.step_s_per_context_token * context
    return Step(at_s, duration_s, 0.0, decodes, chunks)


def soonest_end(decodes: Seq[Sequence]) -> int:
    """Steps until the first of these sequences is done."""
    return min(s.remaining for s in decodes)


def _chunk_s(fit: Fit, sequence: Sequence, tokens: int) -> float:
    start, end = sequence.computed, sequence.computed + tokens
    base_s = 0.0 if sequence.prefill_begun else fit.prefill_base_s
    return base_s + fit.prefill_s_per_token * tokens + fit.prefill_s_per_pair * (end * end - start * start) / 2
