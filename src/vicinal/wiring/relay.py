"""A relay as a process of its own: clients on one side, engines on the other, and the core at the end of a socket."""

import asyncio
import os
import random
from collections.abc import Mapping
from pathlib import Path

import vicinal
from vicinal.config.cluster import endpoints
from vicinal.config.fleet import Config
from vicinal.domain.ids import ModelId
from vicinal.gateway.app import Gateway
from vicinal.gateway.links.relay_end import CoreConnection, RelaySide
from vicinal.gateway.links.submissions import Submissions
from vicinal.tokenizer.kinds import PromptKind
from vicinal.wire.messages import ByText, Hello
from vicinal.wiring.access import AccessRenewal
from vicinal.wiring.served import limits, served


class RelaySystem:
    """Made inside a running event loop. `name` tells it from the other relays of its core, which listens at `core`."""

    def __init__(self, config: Config, name: str, core: Path) -> None:
        self._config = config
        self.gateway = Gateway(served(config, endpoints(config)), limits(config), self._unready)
        self.access = AccessRenewal(config, self.gateway)
        self.submissions = Submissions(
            self.gateway.perform,
            self.gateway.relay.rename,
            asyncio.get_running_loop().time,
            wait_s=config.server.core_wait_s,
            waiting_max=config.scheduler.queue_max,
            chance=random.random,
        )
        self.gateway.connect(self.submissions)
        side = RelaySide(self.gateway.replace_endpoints, self._match_by_text, self._counts)
        self.core = CoreConnection(core, Hello(name, os.getpid(), vicinal.__version__), self.submissions, side)

    async def start(self, port: int) -> int:
        """Listen at a port that other relays share; returns it. Raises OSError like the gateway."""
        self.core.start()
        return await self.gateway.start(self._config.server.host, port, shared=True)

    async def stop(self) -> None:
        """Let running answers finish, then leave the core."""
        try:
            await self.gateway.stop()
        finally:
            await self.core.stop()

    def _unready(self) -> str:
        return self.core.unready

    def _counts(self) -> Mapping[str, Mapping[str, int]]:
        return {**self.gateway.counts(), "relay_events": self.submissions.counts}

    def _match_by_text(self, kinds: tuple[ByText, ...]) -> None:
        self.gateway.matching.replace({(ModelId(one.model), PromptKind(one.kind)): one.reason for one in kinds})
