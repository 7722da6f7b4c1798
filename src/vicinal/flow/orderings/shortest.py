"""`shortest`: the shortest predicted prefill first, and waiting makes shorter.

A request that waited for w seconds counts as `aging` · w seconds shorter. Everybody ages alike, so the order of two
requests never changes: prefill - aging · (now - since) orders as prefill + aging · since does.
"""

from dataclasses import dataclass

from vicinal.contracts.flow import Waiting


@dataclass(frozen=True, slots=True)
class Shortest:
    aging: float = 0.1

    def key(self, waiting: Waiting) -> float:
        return waiting.prefill_s + self.aging * waiting.since_s
