"""A child process that is kept: when it ends, it is started again, with growing pauses."""

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence

from vicinal.gateway.backoff import doubled
from vicinal.wiring.children import ChildFailedError

log = logging.getLogger("vicinal")

CLI = "vicinal.cli.main"
PAUSE_S_MIN, PAUSE_S_MAX = 0.1, 5.0
SETTLED_S = 30.0
"""A child that has lived so long has failed for the first time when it ends."""


class KeptChild:
    """`vicinal ARGUMENTS`, whose first line of output says that it is ready and what there is to know of it.

    Its errors go where ours go. Its input is a pipe that closes when this process ends, however that happens: it stops
    then (cli/loop.py). It is not in our session, so what a terminal sends comes to us alone.
    """

    def __init__(self, name: str, arguments: Sequence[str]) -> None:
        self.name = name
        self.arguments = tuple(arguments)
        self.restarts = 0
        self._process: asyncio.subprocess.Process | None = None
        self._rest: asyncio.Task[bytes] | None = None
        self._keeper: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process is not None and running else None

    async def start(self) -> bytes:
        """Its first line. Raises ChildFailedError when none comes."""
        self._process = process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            CLI,
            *self.arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            code = await process.wait()
            raise ChildFailedError(f"{self.name} ended with code {code} before it was ready; its words are above")
        self._rest = asyncio.create_task(process.stdout.read())
        return line

    def keep(self) -> None:
        """From now on, start it again whenever it ends."""
        self._keeper = asyncio.create_task(self._keep(), name=f"keeper of {self.name}")
        self._keeper.add_done_callback(_ended)

    def send_signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    async def stop(self, grace_s: float) -> None:
        """Ask it to end, and end it when it has not after `grace_s`, or when the caller is cancelled here."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        process = self._process
        if process is None:
            return
        self.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            log.error("%s did not end within %g s", self.name, grace_s)
        finally:
            self.send_signal(signal.SIGKILL)
            if self._rest is not None:
                self._rest.cancel()
        await process.wait()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            began_s = loop.time()
            assert self._process is not None
            code = await self._process.wait()
            if loop.time() - began_s > SETTLED_S:
                failures = 0
            log.error("%s (process %d) ended with code %d; it is started again", self.name, self._process.pid, code)
            await asyncio.sleep(doubled(PAUSE_S_MIN, failures, PAUSE_S_MAX))
            failures += 1
            self.restarts += 1
            with contextlib.suppress(ChildFailedError):  # it has said why itself, and the next try comes
                await self.start()


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("keeping a process ended", exc_info=error)
