"""Layer-wise overlap: KV leaves while its prefill still computes.

A prefill of `compute_s` over L layers has a layer's KV ready every compute_s / L, and may send it at once. Sent one
after the other at a constant rate that would move all of it in `transfer_s`, layer i starts once it is there and its
predecessor has left, so the last byte arrives at

    max over i of (i · compute_s / L + (L - i + 1) · transfer_s / L),

which is linear in i and so largest at i = 1 or i = L: compute_s / L + transfer_s, or compute_s + transfer_s / L. Less
compute_s, that is what of the transfer is still to come when the prefill is done (`exposed_s`): no overlap can hide the
last layer, and none can hide more than the compute lasts.

In a network whose shares change, the same transfer is a flow that begins when the first layer is there, moves no faster
than layers come (all bytes / compute_s), and keeps its last layer until the prefill is done (`overlap`). At a constant
rate it ends exactly when the formula says. One that has fallen behind does not catch up before that, which a real
sender would: then it is late by at most what it lacked.

A prefill in n chunks gives each chunk's layers in turn: that is n · L parts instead of L.
"""

from dataclasses import dataclass

from vicinal.enginemodel.stripes import Release


@dataclass(frozen=True, slots=True)
class Overlap:
    """How to start a flow for a prefill that begins to compute: `begin_s` later, with this release.

    Once the prefill is done, `Network.released` lets the rest go, whenever that is.
    """

    begin_s: float
    release: Release


def exposed_s(transfer_s: float, compute_s: float, layers: int) -> float:
    """Seconds from the end of a prefill to the last byte of its KV; `transfer_s` when there is one layer."""
    return max(transfer_s / layers, transfer_s - compute_s * (1 - 1 / layers))


def overlap(kv_bytes: float, compute_s: float, layers: int) -> Overlap:
    """The flow of `kv_bytes` that is computed in `compute_s`, which is above 0. See the module."""
    return Overlap(compute_s / layers, Release(kv_bytes / compute_s, kv_bytes / layers))
