"""The gateway's end of its reader process: one body at a time goes there, piece by piece, and its answer comes back."""

import asyncio
import contextlib
import sys
from typing import Self

import msgspec

from vicinal.engines.long_body import Pieces
from vicinal.gateway.reading.messages import LENGTH_BYTES, Job, Read, Setup, Unread, packed

_answers = msgspec.msgpack.Decoder(Read | Unread)
_REST_S = 0.001


class ReaderLostError(Exception):
    """The reader process has ended."""


class Reader:
    """A reader process that has been started."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._to = process.stdin
        self._from = process.stdout

    @classmethod
    async def start(cls, setup: Setup) -> Self:
        """Raises OSError when there can be no further process."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "vicinal.gateway.reading.process",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        reader = cls(process)
        reader._to.write(packed(setup))
        return reader

    async def read(self, job: Job, body: Pieces) -> Read | Unread:
        """Raises ReaderLostError. After that, or when this is cancelled, the reader is of no further use."""
        try:
            for part in (packed(job), *body.parts):
                if self._to.is_closing():  # uvloop's pipes refuse what is written then with an error of their own
                    raise ReaderLostError("the pipe to the reader is closed")
                self._to.write(part)
                await self._to.drain()
                await asyncio.sleep(_REST_S)  # drain waits for room only: a pipe that has it must not take all our time
            size = int.from_bytes(await self._from.readexactly(LENGTH_BYTES), "little")
            return _answers.decode(await self._from.readexactly(size))
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            raise ReaderLostError(str(error)) from None

    async def end(self) -> None:
        """End the process and wait until it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self._to.close()
        await self.process.wait()
