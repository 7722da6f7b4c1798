"""Whose turns went before: counted while somebody waits, so that each can be told at its end whom it waited behind.

A turn costs two additions, however many wait: each notes the totals when it begins to wait, and the difference is who
passed it by.
"""

from dataclasses import dataclass, field
from operator import sub
from typing import NamedTuple

from vicinal.domain.band import Band
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.passed_by import PassedBy
from vicinal.domain.request import Request

_BANDS = len(Band)
_Flow = tuple[ModelId, Band, TenantId]


@dataclass(slots=True)
class _Turns:
    """Of one tenant in one band of one model, while `waiting` of it wait."""

    waiting: int = 0
    given: int = 0


class _Mark(NamedTuple):
    """Turns given so far: in each band, and in one's own flow."""

    by_band: tuple[int, ...]
    own: int


@dataclass(slots=True)
class Passing:
    """Remembers as many requests, and flows, as wait."""

    _by_band: dict[ModelId, list[int]] = field(default_factory=dict)
    _flows: dict[_Flow, _Turns] = field(default_factory=dict)
    _marks: dict[RequestId, _Mark] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._marks)

    def waits(self, request: Request) -> None:
        """From now on, until `leaves`."""
        flow = _flow(request)
        turns = self._flows.get(flow)
        if turns is None:
            turns = self._flows[flow] = _Turns()
        turns.waiting += 1
        self._marks[request.id] = _Mark(tuple(self._bands(request.model)), turns.given)

    def had_turn(self, request: Request) -> None:
        """It is sent off. It does not count as passing itself, so it must have left before."""
        if not self._marks:
            return
        self._bands(request.model)[request.band.rank] += 1
        turns = self._flows.get(_flow(request))
        if turns is not None:
            turns.given += 1

    def leaves(self, request: Request) -> PassedBy | None:
        """Who was sent off while it waited. None for one that does not wait."""
        mark = self._marks.pop(request.id, None)
        if mark is None:
            return None
        flow = _flow(request)
        turns = self._flows[flow]
        rank = request.band.rank
        since = list(map(sub, self._bands(request.model), mark.by_band))
        own = turns.given - mark.own
        turns.waiting -= 1
        if not turns.waiting:
            del self._flows[flow]
        if not self._marks:
            self._by_band.clear()
        return PassedBy(sum(since[:rank]), sum(since[rank + 1 :]), since[rank] - own, own)

    def _bands(self, model: ModelId) -> list[int]:
        bands = self._by_band.get(model)
        if bands is None:
            bands = self._by_band[model] = [0] * _BANDS
        return bands


def _flow(request: Request) -> _Flow:
    return request.model, request.band, request.tenant
