"""Seconds of compute from three fitted parameters per phase.

    prefill(n, p) = a + b (n - p) + c (n - p)(n + p) / 2     n prompt tokens, p of them cached
    step(B, ctx)  = a' + b' B + c' ctx                            B sequences with ctx tokens of context together

(n - p)(n + p)/2 is about the number of query-key pairs that attention computes. All functions take scalars or arrays.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Number = TypeVar("Number", float, NDArray[np.float64])


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

    def prefill_s(self, prompt_tokens: Number, cached_tokens: Number) -> Number:
        new = prompt_tokens - cached_tokens
        pairs = new * (prompt_tokens + cached_tokens) / 2
        return self.prefill_base_s + self.prefill_s_per_token * new + self.prefill_s_per_pair * pairs

    def step_s(self, sequences: Number, context_tokens: Number) -> Number:
        """Seconds of one decode step. With no sequence there is no step; callers ask for at least one."""
        return self.step_base_s + self.step_s_per_sequence * sequences + self.step_s_per_context_token * context_tokens
