"""What endpoints have of a prompt below HBM, and how long they take to load it (`fetch_kv`).

An engine loads what it finds, whether it pays or not, so this is a prediction and no choice. Its reads wait for those
of other requests, which nobody tells us: `fetch_s` is that of a prompt alone.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cost.sides import Below, Floats
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.request import Request


class LoadRates(Struct, frozen=True):
    """Seconds per token to bring KV into HBM, per slot. From SSD it comes through host memory."""

    host_s_per_token: Floats
    ssd_s_per_token: Floats


def load_rates(endpoints: Sequence[Endpoint]) -> LoadRates:
    """A slot that no endpoint of the fleet has any more keeps its last rates."""
    kv_bytes = np.array([e.kv_bytes_per_token for e in endpoints], dtype=np.float64)
    host_s = kv_bytes / np.array([e.host_bytes_per_s for e in endpoints], dtype=np.float64)
    return LoadRates(host_s, host_s + kv_bytes / np.array([e.ssd_bytes_per_s for e in endpoints], dtype=np.float64))


def below(request: Request, in_hbm: Floats, reached: Sequence[NDArray[np.int32]], rates: LoadRates) -> Below:
    """Per slot. `in_hbm` are reusable tokens; `reached` blocks from the prompt's start, down to host memory and SSD."""
    down_to_host, down_to_ssd = (reusable_tokens(request, blocks) for blocks in reached)
    host_tokens, ssd_tokens = down_to_host - in_hbm, down_to_ssd - down_to_host
    fetch_s = host_tokens * rates.host_s_per_token + ssd_tokens * rates.ssd_s_per_token
    return Below(host_tokens, ssd_tokens, fetch_s)


def reusable_tokens(request: Request, cached_blocks: NDArray[np.int32]) -> Floats:
    """Prompt tokens that whole cached blocks save. An engine computes at least the last token itself, and reuses
    whole blocks only, so a prompt that is cached to its end loses its last block."""
    whole_blocks = request.reusable_tokens_max // request.block_tokens
    return np.minimum(cached_blocks, whole_blocks) * np.float64(request.block_tokens)
