"""Where clients come in: at the core's own process, or at relays that are processes of their own (DESIGN 14)."""

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import vicinal
from vicinal.config.fleet import Config
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import Event
from vicinal.domain.ids import RequestId
from vicinal.gateway.app import Gateway
from vicinal.gateway.link import RelayEffect
from vicinal.gateway.links.core_end import CoreSide, RelayLinks
from vicinal.wire.messages import Beat, ByText


class Core(Protocol):
    """The process's own part, as its front sees it. `gateway` carries at least what the core itself asks for."""

    gateway: Gateway
    fleet: tuple[Endpoint, ...]

    @property
    def config(self) -> Config: ...

    def post(self, event: Event) -> None: ...

    def unready(self) -> str: ...

    def drifted(self) -> None: ...


class Front(Protocol):
    """`counts` are totals of the data path by metric and kind; `shown` is for operators."""

    async def start(self) -> int: ...

    async def stop(self) -> None: ...

    def perform(self, effect: RelayEffect) -> None: ...

    def over(self, request_id: RequestId) -> None: ...

    def fleet_changed(self) -> None: ...

    def counts(self) -> Mapping[str, Mapping[str, int]]: ...

    def shown(self) -> Iterable[Mapping[str, Any]]: ...


class HereFront:
    """Clients come to this process, and every post is a call."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def start(self) -> int:
        """Returns the port. Raises OSError naming it and how to change it."""
        server = self._core.config.server
        return await self._core.gateway.start(server.host, server.port)

    async def stop(self) -> None:
        await self._core.gateway.stop()

    def perform(self, effect: RelayEffect) -> None:
        self._core.gateway.perform(effect)

    def over(self, request_id: RequestId) -> None:
        """The relay knows already."""

    def fleet_changed(self) -> None:
        """The gateway was told."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        return self._core.gateway.counts()

    def shown(self) -> Iterable[Mapping[str, Any]]:
        return ()


class RelaysFront:
    """Clients come to `relays` relays, which come to the socket at `path`. The core's gateway carries copies only.

    Until all relays have come, none should be sent requests: clients that keep their connections would stay with the
    first one to listen.
    """

    def __init__(self, core: Core, path: Path, relays: int) -> None:
        self._core = core
        self._path = path
        self._relays = relays
        self._complete = False
        self._differed = 0
        side = CoreSide(core.post, lambda: core.fleet, self._beat, vicinal.__version__, self._counted)
        self._links = RelayLinks(side, core.gateway.perform)

    async def start(self) -> int:
        await self._links.start(self._path)
        return self._core.config.server.port

    async def stop(self) -> None:
        await self._links.stop()
        await self._core.gateway.stop()

    def perform(self, effect: RelayEffect) -> None:
        self._links.perform(effect)

    def over(self, request_id: RequestId) -> None:
        self._links.over(request_id)

    def fleet_changed(self) -> None:
        self._links.fleet_changed()

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """What relays and the core's own gateway counted, and what the links met."""
        added = {metric: Counter(kinds) for metric, kinds in self._core.gateway.counts().items()}
        for metric, kinds in self._links.totals().items():
            added.setdefault(metric, Counter()).update(kinds)
        added.setdefault("relay_events", Counter()).update(self._links.counts)
        return added

    def shown(self) -> Iterable[Mapping[str, Any]]:
        return self._links.shown()

    def _beat(self) -> Beat:
        by_text = self._core.gateway.matching.by_text
        words = tuple(ByText(model, kind.value, reason) for (model, kind), reason in by_text.items())
        return Beat(self._starting() or self._core.unready(), words)

    def _starting(self) -> str:
        here = len([*self._links.shown()])
        self._complete = self._complete or here >= self._relays
        return "" if self._complete else f"{here} of {self._relays} relays are up"

    def _counted(self) -> None:
        """A relay found that an engine counts other tokens than it does."""
        differ = self._links.totals().get("gateway_events", {}).get("token_counts_differ", 0)
        if differ > self._differed:
            self._core.drifted()
        self._differed = max(differ, self._differed)
