"""Seconds of compute from three fitted parameters per phase.

    prefill(n, p) = a + b (n - p) + c (n - p)(n + p) / 2     n prompt tokens, p of them cached
    step(B, ctx)  = a' + b' B + c' ctx                            B sequences with ctx tokens of context together
    mixed         = max(a + sum over chunks, a') + b' B + c' ctx  chunks beside B decoding sequences
    chunk         = b (to - from) + c (to^2 - from^2) / 2

(n - p)(n + p)/2 is about the number of query-key pairs that attention computes. Every step reads the weights once and
starts its kernels once, so a prompt cut over k steps takes a (k - 1) longer, and prompts that share a step share its a.
`prefill_s` and `step_s` take scalars or arrays.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import overload

import numpy as np
from numpy.typing import NDArray

from vicinal.enginemodel.timing import Chunk, Piece

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Fit:
    """One engine configuration's figures. `source` says where they were measured or fitted."""

    name: str
    prefill_base_s: float
    prefill_s_per_token: float
    prefill_s_per_pair: float
    step_base_s: float
    step_s_per_sequence: float
    step_s_per_context_token: float
    source: str

    @overload
    def prefill_s(self, prompt_tokens: float, cached_tokens: float) -> float: ...
    @overload
    def prefill_s(self, prompt_tokens: float | Floats, cached_tokens: Floats) -> Floats: ...
    def prefill_s(self, prompt_tokens: float | Floats, cached_tokens: float | Floats) -> float | Floats:
        """Seconds to compute a prompt of which a prefix is cached."""
        new = prompt_tokens - cached_tokens
        pairs = new * (prompt_tokens + cached_tokens) / 2
        return self.prefill_base_s + self.prefill_s_per_token * new + self.prefill_s_per_pair * pairs

    @overload
    def step_s(self, sequences: float, context_tokens: float) -> float: ...
    @overload
    def step_s(self, sequences: Floats, context_tokens: Floats) -> Floats: ...
    def step_s(self, sequences: float | Floats, context_tokens: float | Floats) -> float | Floats:
        """Seconds of one decode step. With no sequence there is no step; callers ask for at least one."""
        return self.step_base_s + self.step_s_per_sequence * sequences + self.step_s_per_context_token * context_tokens

    def decode(self, sequences: int, context_tokens: int) -> Piece:
        """`step_s` of the first step; every sequence then has one token more."""
        growth_s = self.step_s_per_context_token * sequences
        return Piece(self.step_s(float(sequences), float(context_tokens)), growth_s)

    def mixed_s(self, chunks: Sequence[Chunk], sequences: int, context_tokens: int) -> float:
        """Seconds of one step with chunks. Never less than without them."""
        seconds = self.prefill_base_s
        for chunk in chunks:
            seconds += self.prefill_s_per_token * chunk.tokens + self.prefill_s_per_pair * chunk.pairs
        if not sequences:
            return seconds
        riding_s = self.step_s_per_sequence * sequences + self.step_s_per_context_token * context_tokens
        return max(seconds, self.step_base_s) + riding_s


def stack(fits: Sequence[Fit]) -> Fit:
    """One `Fit` whose figures are arrays, one value per endpoint: the same formulas then price a whole fleet."""
    figures = {f.name: np.array([getattr(fit, f.name) for fit in fits]) for f in fields(Fit) if f.type is float}
    return Fit(name="fleet", source="stacked", **figures)  # type: ignore[arg-type]
