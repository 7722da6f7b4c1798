"""Which lane a prefill takes, and how many long ones may be under way at once.

Long is relative: more than so many times what a prefill usually takes on this fleet, and never less than a floor. So a
fleet that serves long prompts only has no long lane, and is not kept half empty for short ones that never come.
"""

from dataclasses import dataclass

from vicinal.domain.lane import Lane


@dataclass(frozen=True, slots=True)
class LaneRule:
    """At most `long_share` of the endpoints that prefill do long ones at once, but at least one; 1 is no limit."""

    long_prefill_s: float = 2.0
    long_factor: float = 4.0
    long_share: float = 0.5

    def of(self, prefill_s: float, mean_prefill_s: float) -> Lane:
        """`mean_prefill_s` is what prefills took lately, 0 when there was none."""
        if self.long_share >= 1.0 or prefill_s < max(self.long_prefill_s, self.long_factor * mean_prefill_s):
            return Lane.SHORT
        return Lane.LONG

    def long_max(self, endpoints: int) -> int:
        """Long prefills that may be under way on so many endpoints."""
        return max(1, int(self.long_share * endpoints))
