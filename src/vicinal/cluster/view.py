"""The fleet as one decision sees it: arrays per slot, taken from ledger and reports at one moment.

Nothing else runs while the core decides, so the arrays are the ledger's own where no arithmetic is needed: a view is
valid until the next event.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet

Floats = NDArray[np.float64]


class View(Struct, frozen=True):
    """Per slot unless said otherwise.

    `known`: its last report is not Unknown. `usable`: known, active and reachable.
    `wait_prefill_s`: until new prefill work would begin, and `own_wait_prefill_s` because of our own work alone.
    `decode_sequences` and `decode_context_tokens`: the batch that a newcomer would join, pencilled ones and strangers
    included. `free_blocks`: HBM that can be promised, after reservations, strangers and the safety margin.
    `outstanding_*_tokens`: predicted tokens not done yet, by phase: the measure of "the emptiest GPU".
    `*_count`: our requests there: prefills queued or running, decodes, and decodes that are pencilled in.
    `reported_s` is when the last report was made, -inf where nothing was ever reported; figures of it that the engine
    does not give (`gpu_utilization`, `reported_*`) are NaN.
    `link_flows` is our transfers per link, plus one link that nothing loads; `sending` is those that a slot sends, by
    level, (slots, levels). `pressure_s` is what an endpoint under pressure costs more, None while none is.
    """

    now_s: float
    fleet: Fleet
    known: NDArray[np.bool_]
    usable: NDArray[np.bool_]
    wait_prefill_s: Floats
    own_wait_prefill_s: Floats
    outstanding_prefill_tokens: Floats
    outstanding_decode_tokens: Floats
    prefill_count: Floats
    decode_count: Floats
    pencilled_count: Floats
    decode_sequences: Floats
    decode_context_tokens: Floats
    free_blocks: Floats
    blocks_in_use: Floats
    foreign_requests: Floats
    reported_s: Floats
    gpu_utilization: Floats
    reported_waiting: Floats
    reported_running: Floats
    reported_kv_usage: Floats
    link_flows: Floats
    sending: Floats
    pressure_s: Floats | None = None

    @property
    def all_usable(self) -> bool:
        return int(np.count_nonzero(self.usable)) == len(self.usable)

    @property
    def report_age_s(self) -> Floats:
        """Infinite where nothing was ever reported."""
        return np.maximum(self.now_s - self.reported_s, 0.0)
