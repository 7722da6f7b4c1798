"""The fleet in the configuration file, taken over while the gateway runs.

The files are compared once a second, by content: that works wherever files do, and for links that are turned. A new
content is taken over when it stayed the same for one more look, because an editor may write in parts. A file that is
wrong changes nothing and is told once, with its lines.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from vicinal.config.changes import restart_keys, with_endpoints
from vicinal.config.fleet import Config
from vicinal.config.load import files_of, load

log = logging.getLogger("vicinal")

LOOK_S = 1.0


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
        self._look_s = look_s
        self._taken = _contents(path, environ)
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, take_over: Callable[[Config], Awaitable[None]]) -> None:
        """Watch from now on. `take_over` is given the running configuration with the file's endpoints; it may refuse
        with a ValueError."""
        self._take_over = take_over
        self._task = asyncio.create_task(self._watch(), name="config-watch")
        self._task.add_done_callback(_ended)

    def ask(self) -> None:
        """Read the file now, changed or not, as for SIGHUP."""
        self._asked.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

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

    async def _watch(self) -> None:
        seen = self._taken
        while True:
            try:
                async with asyncio.timeout(self._look_s):
                    await self._asked.wait()
            except TimeoutError:
                before, seen = seen, await self._contents()
                if seen == self._taken or seen != before:
                    continue
            else:
                self._asked.clear()
                seen = await self._contents()
            self._taken = seen
            await self.reload()

    async def _contents(self) -> tuple[bytes | None, ...]:
        return await asyncio.to_thread(_contents, self._path, self._environ)


def _contents(path: Path, environ: Mapping[str, str]) -> tuple[bytes | None, ...]:
    """What stands in the files that make up a configuration; None for one that cannot be read."""
    found: list[bytes | None] = []
    for file in files_of(path, environ):
        try:
            found.append(file.read_bytes())
        except OSError:
            found.append(None)
    return tuple(found)


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("watching the configuration ended", exc_info=error)
