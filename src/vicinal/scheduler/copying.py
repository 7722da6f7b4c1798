"""A copy of a prefix is a request without a client.

Its prefill leg runs where the prefix is, and is a hit there; its decode leg runs at the target, which pulls the KV and
keeps it. Nobody wants the one token that comes of it. So a copy is decided, reserved, recorded and priced like any
request, and needs of engines only what every hand-off needs. It differs in who may serve it (below), and in that it is
never held: it is work that can be left undone.
"""

import numpy as np

from vicinal.domain.outcome import Ending, Outcome
from vicinal.kvindex.match import Match
from vicinal.scheduler.filters import Filtered


def as_copy(out: Filtered, match: Match) -> Filtered:
    """Who may take part in a copy: as prefill those who hold the prefix whole, as decode its target if it does not."""
    request, fleet = out.request, out.view.fleet
    whole = (match.ready >= request.blocks) & (request.blocks > 0)
    target = np.zeros(len(fleet), dtype=bool)
    if request.copy_to in fleet.slots:
        target[fleet.slots[request.copy_to]] = True
    return out.as_copy(whole & fleet.makes_copies, target & ~whole & fleet.makes_copies)


def copy_refusal(out: Filtered) -> Outcome:
    """Why a copy cannot be made now."""
    request, fleet = out.request, out.view.fleet
    target = request.copy_to
    slot = None if target is None else fleet.slots.get(target)
    if slot is None:
        return Outcome(Ending.REJECTED, f"no endpoint is named {target}")
    if not request.blocks:
        return Outcome(Ending.REJECTED, "the prefix has no whole block of which anything is known")
    if not fleet.hands_off[slot]:
        return Outcome(Ending.REJECTED, f"{target} takes no KV from others (hand_off)")
    if not fleet.makes_copies[slot]:
        kind = fleet.endpoints[slot].hand_off
        return Outcome(Ending.REJECTED, f"{target} hands off by {kind}, which is not known to leave a copy behind")
    against = [verdict.reason for verdict in out.verdicts() if verdict.endpoint == target]
    if against:
        return Outcome(Ending.NO_ENDPOINT, f"the prefix cannot be copied to {target}, which {against[0]}")
    if out.masks.decode_blocked[slot]:
        return Outcome(Ending.REJECTED, f"{target} holds all {request.blocks} blocks of the prefix already")
    return Outcome(
        Ending.NO_ENDPOINT, f"no other endpoint that answers holds all {request.blocks} blocks of the prefix"
    )
