"""The fleet in the configuration file, taken over while the gateway runs (watching.py says when).

A file that is wrong changes nothing and is told once, with its lines.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from vicinal.config.changes import restart_keys, with_endpoints
from vicinal.config.fleet import Config
from vicinal.config.load import files_of, load
from vicinal.wiring.watching import LOOK_S, FileWatch

log = logging.getLogger("vicinal")


class ConfigWatch:
    """Made right after `config` was read from `path`. `config` is what runs now."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        config: Config,
        look_s: float = LOOK_S,
    ) -> None:
        self.config = config
        self._path = path
        self._environ = environ
        self._take_over: Callable[[Config], Awaitable[None]] | None = None
        self._watch = FileWatch(lambda: files_of(path, environ), look_s)

    def start(self, take_over: Callable[[Config], Awaitable[None]]) -> None:
        """Watch from now on. `take_over` is given the running configuration with the file's endpoints; it may refuse
        with a ValueError."""
        self._take_over = take_over
        self._watch.start(self.reload)

    def ask(self) -> None:
        """Read the file now, changed or not, as for SIGHUP."""
        self._watch.ask()

    async def stop(self) -> None:
        await self._watch.stop()

    async def reload(self) -> None:
        """Take the file over as it is. Whatever is wrong is logged and changes nothing."""
        if self._take_over is None:
            raise RuntimeError("the watch has not been started")
        try:
            new = await asyncio.to_thread(load, self._path, self._environ)
            merged = with_endpoints(self.config, new, str(self._path))
            await self._take_over(merged)
        except ValueError as error:
            log.error("%s is not taken over, the fleet stays as it was:\n%s", self._path, error)
            return
        if keys := sorted(restart_keys(self.config, new)):
            log.warning("%s: %s: changed, and needs a restart", self._path, ", ".join(keys))
        self.config = merged
