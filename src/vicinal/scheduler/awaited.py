"""What has to happen before the first of those that wait can go, in words for an operator and for the record."""

import numpy as np
from msgspec import Struct

from vicinal.cluster.ledger import Ledger
from vicinal.domain.verdict import Rule
from vicinal.scheduler.filters import Filtered, Mask


class Awaited(Struct, frozen=True):
    """`words` complete "it waits for …"; `in_s` is when that happens by time alone, None where something must end."""

    words: str
    in_s: float | None = None

    def __str__(self) -> str:
        return self.words if self.in_s is None else f"{self.words}, in {self.in_s:.1f} s"


LONG_ENDS = Awaited("a long prefill to end: as many as may be are under way")
ITS_TURN = Awaited("its turn: nothing else keeps it waiting")


def awaited(out: Filtered, ledger: Ledger) -> Awaited:
    """What would let in whoever `out` is about, as far as waiting cures it: of the endpoints that only passing rules
    leave out, the one that is nearest to taking it."""
    if Rule.SATURATED in out.rules:
        return _shorter(out, ledger)
    lasting = np.zeros(len(out.view.fleet), dtype=bool)
    for rule, mask in out.rules.items():
        if not rule.passing:
            lasting |= mask
    for rule, mask in reversed(out.rules.items()):  # the most curable last, and what it leaves out first
        if rule.passing and np.count_nonzero(mask & ~lasting):
            slot = _nearest(out, rule, mask & ~lasting)
            verdict = out.verdict(rule, slot)
            return Awaited(f"{verdict.cure} ({verdict.endpoint} {verdict.reason})")
    return ITS_TURN


def _shorter(out: Filtered, ledger: Ledger) -> Awaited:
    view = out.view
    assert out.limit_s is not None
    over_s = np.where(out.rules[Rule.SATURATED], view.own_wait_prefill_s - out.limit_s, np.inf)
    slot = int(over_s.argmin())
    left_s = float(over_s[slot])
    words = f"{view.fleet.endpoints[slot].id} to fall below {out.limit_s[slot]:.3g} s of queued prefill"
    compute_s = float(ledger.head_compute_s[slot])
    head_left_s = compute_s - min(view.now_s - float(ledger.head_started_s[slot]), compute_s)
    return Awaited(words, max(left_s, 0.0) if left_s < head_left_s else None)


def _nearest(out: Filtered, rule: Rule, slots: Mask) -> int:
    """Of these, the one with the most room; there is at least one."""
    view = out.view
    match rule:
        case Rule.HEADROOM:
            room = view.free_blocks
        case Rule.SEQUENCES:
            room = view.fleet.sequences_max - view.decode_sequences
        case _:
            room = -view.report_age_s
    candidates = slots.nonzero()[0]
    return int(candidates[room[candidates].argmax()])
