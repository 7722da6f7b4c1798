"""Files that may change while a process runs.

They are compared once a second, by content: that works wherever files do, and for links that are turned. A new content
is told of when it stayed the same for one more look, because an editor may write in parts.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

log = logging.getLogger("vicinal")

LOOK_S = 1.0


class FileWatch:
    """Watches what `files` names at each look. Made right after their present content was read."""

    def __init__(self, files: Callable[[], Iterable[Path]], look_s: float = LOOK_S) -> None:
        self._files = files
        self._look_s = look_s
        self._taken = self._contents()
        self._asked = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self, changed: Callable[[], Awaitable[None]]) -> None:
        """Call `changed` for each new content from now on."""
        self._task = asyncio.create_task(self._watch(changed), name="file-watch")
        self._task.add_done_callback(_ended)

    def ask(self) -> None:
        """Take them for changed now, as for SIGHUP."""
        self._asked.set()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _watch(self, changed: Callable[[], Awaitable[None]]) -> None:
        seen = self._taken
        while True:
            try:
                async with asyncio.timeout(self._look_s):
                    await self._asked.wait()
            except TimeoutError:
                before, seen = seen, await asyncio.to_thread(self._contents)
                if seen == self._taken or seen != before:
                    continue
            else:
                self._asked.clear()
                seen = await asyncio.to_thread(self._contents)
            self._taken = seen
            await changed()

    def _contents(self) -> tuple[bytes | None, ...]:
        """What stands in the files; None for one that cannot be read."""
        found: list[bytes | None] = []
        for file in self._files():
            try:
                found.append(file.read_bytes())
            except OSError:
                found.append(None)
        return tuple(found)


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("watching files ended", exc_info=error)
