"""Child processes of `vicinal up`: the engines and the load client, each with its own interpreter.

A child of ours never outlives us: it is stopped when the block that started it is left, however that happens.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

STOP_S = 10.0
ERRORS_BYTES = 64 * 1024
"""How much of the end of a child's error output is kept."""


class ChildFailedError(RuntimeError):
    """A child ended when it should not have; the text has its last words."""


@dataclass(frozen=True, slots=True)
class Child:
    """A running child. `errors` reads what it says on its error output, all the time: a full pipe would stop it."""

    process: asyncio.subprocess.Process
    errors: asyncio.Task[bytes]


@contextlib.asynccontextmanager
async def child(module: str, arguments: Sequence[str]) -> AsyncIterator[Child]:
    """`python -m module arguments`, with its standard output and errors as pipes; terminated on the way out."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    errors = asyncio.create_task(_end_of(process.stderr))
    try:
        yield Child(process, errors)
    finally:
        await _stop(process)
        errors.cancel()
        await asyncio.gather(errors, return_exceptions=True)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _end_of(stream: asyncio.StreamReader) -> bytes:
    """The last bytes of a stream, once it has ended."""
    kept = b""
    while said := await stream.read(ERRORS_BYTES):
        kept = (kept + said)[-ERRORS_BYTES:]
    return kept


async def first_line(started: Child, name: str) -> bytes:
    """The first line of a child's output, which says that it is ready. Raises ChildFailedError when none comes."""
    assert started.process.stdout is not None
    line = await started.process.stdout.readline()
    if not line:
        raise ChildFailedError(await last_words(started, name))
    return line


async def last_words(ended: Child, name: str) -> str:
    """What a child that ended has said on its error output, at most its last `ERRORS_BYTES`."""
    said = (await ended.errors).decode(errors="replace").strip()
    await ended.process.wait()
    return said or f"{name} ended with code {ended.process.returncode} and said nothing"
