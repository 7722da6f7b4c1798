"""Named engine configurations: a model on some GPUs under a backend, as the six figures of a `Fit`.

The figures are least-squares fits of `Fit`'s two formulas to the prefill and decode grids of NVIDIA AIConfigurator 0.12
(Apache-2.0), rounded to six significant digits. Mean errors are 1 to 5 % for prefill (worst 17 %), 1 to 9 % for decode
steps (worst 27 %, for the mixture-of-experts models). KV bytes per token come from the models' published shapes in
bfloat16: 2 x layers x KV heads x head size x 2 bytes; for DeepSeek's latent attention, layers x 576 x 2 bytes.

A name is model-gpu-tpN-backend, in lower case.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import NamedTuple

from vicinal.enginemodel.fit import Fit

_SOURCE = "fitted to NVIDIA AIConfigurator 0.12 grids (Apache-2.0)"


class UnknownProfileError(ValueError):
    """No profile has this name. `nearest` holds the known names that resemble it, best first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nearest = tuple(get_close_matches(name.lower(), NAMES, n=3, cutoff=0.3))
        hint = f"did you mean {', '.join(self.nearest)}?" if self.nearest else f"known are {', '.join(NAMES)}"
        super().__init__(f"there is no cost profile named {name!r}: {hint}")


class _Row(NamedTuple):
    name: str
    kv_bytes_per_token: int
    prefill_base_ms: float
    prefill_us_per_token: float
    prefill_ns_per_pair: float
    step_base_ms: float
    step_us_per_sequence: float
    step_ns_per_context_token: float

    def fit(self) -> Fit:
        return Fit(
            name=self.name,
            prefill_base_s=self.prefill_base_ms * 1e-3,
            prefill_s_per_token=self.prefill_us_per_token * 1e-6,
            prefill_s_per_pair=self.prefill_ns_per_pair * 1e-9,
            step_base_s=self.step_base_ms * 1e-3,
            step_s_per_sequence=self.step_us_per_sequence * 1e-6,
            step_s_per_context_token=self.step_ns_per_context_token * 1e-9,
            source=_SOURCE,
        )


_ROWS = (
    _Row("qwen3-235b-a22b-fp8-h200-tp8-vllm", 192512, 31.9158, 24.1284, 0.660685, 19.9369, 78.8515, 9.39537),
    _Row("qwen3-32b-h100-tp4-sglang", 262144, 7.62891, 29.0916, 0.82545, 8.01383, 17.0073, 21.5689),
    _Row("qwen3-32b-h100-tp2-vllm", 262144, 9.66205, 46.5183, 1.66054, 13.6097, 25.93, 42.2893),
    _Row("qwen3-8b-h100-tp1-vllm", 147456, 4.96078, 18.4175, 0.921651, 6.65128, 10.6326, 47.3525),
    _Row("deepseek-v3-h200-tp8-sglang", 70272, 25.4764, 38.239, 3.29021, 12.0367, 131.077, 122.584),
    _Row("llama-3.1-70b-a100-tp8-vllm", 327680, 14.6839, 98.5979, 1.78668, 17.5614, 67.1188, 26.2551),
    _Row("llama-3.1-70b-h100-tp8-sglang", 327680, 8.61358, 39.3777, 0.517966, 9.55082, 26.4944, 13.7128),
    _Row("llama-3.1-70b-h100-tp4-vllm", 327680, 9.65938, 58.812, 1.02905, 15.2357, 31.8487, 26.574),
    _Row("llama-3.1-70b-h100-tp8-vllm", 327680, 7.84635, 37.5538, 0.510472, 10.0168, 23.2551, 13.3788),
    _Row("llama-3.1-70b-h200-tp4-vllm", 327680, 7.03534, 59.3102, 1.05884, 12.2908, 30.8746, 18.6589),
    _Row("llama-3.1-8b-a100-tp1-vllm", 131072, 7.66565, 54.492, 2.98917, 11.5085, 29.8142, 85.487),
    _Row("llama-3.1-8b-h100-tp1-sglang", 131072, 3.74507, 19.5946, 0.883651, 6.48269, 7.97524, 42.121),
    _Row("llama-3.1-8b-h100-tp1-vllm", 131072, 3.90325, 18.5776, 0.824679, 6.45441, 9.96181, 42.0593),
)

NAMES: tuple[str, ...] = tuple(row.name for row in _ROWS)
"""Every profile's name."""

PROFILES: Mapping[str, Fit] = MappingProxyType({row.name: row.fit() for row in _ROWS})
"""Every profile by name."""

KV_BYTES_PER_TOKEN: Mapping[str, int] = MappingProxyType({row.name: row.kv_bytes_per_token for row in _ROWS})
"""Bytes of KV that one token takes over all layers and ranks, by profile name."""


def profile(name: str) -> Fit:
    """The profile of that name; raises UnknownProfileError, which names the nearest."""
    try:
        return PROFILES[name]
    except KeyError:
        raise UnknownProfileError(name) from None
