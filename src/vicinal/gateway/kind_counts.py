"""Counters by kind, each there from the beginning: a kind that never happened reads 0, not nothing."""

from enum import StrEnum
from typing import Generic, TypeVar

Kind = TypeVar("Kind", bound=StrEnum)


class KindCounts(Generic[Kind]):
    """Totals since the start. `counts` is what `/metrics` and the core read."""

    def __init__(self, kinds: type[Kind]) -> None:
        self.counts: dict[str, int] = {kind.value: 0 for kind in kinds}

    def add(self, kind: Kind) -> None:
        self.counts[kind.value] += 1
