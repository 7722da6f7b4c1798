"""Child processes of `vicinal up`: the engines and the load client, each with its own interpreter.

A child of ours never outlives us: it is stopped when the block that started it is left, however that happens.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence

STOP_S = 10.0


class ChildFailedError(RuntimeError):
    """A child ended when it should not have; the text has its last words."""


@contextlib.asynccontextmanager
async def child(module: str, arguments: Sequence[str]) -> AsyncIterator[asyncio.subprocess.Process]:
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
    try:
        yield process
    finally:
        await _stop(process)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def first_line(process: asyncio.subprocess.Process, name: str) -> bytes:
    """The first line of a child's output, which says that it is ready. Raises ChildFailedError when none comes."""
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise ChildFailedError(await last_words(process, name))
    return line


async def last_words(process: asyncio.subprocess.Process, name: str) -> str:
    """What a child that ended has said on its error output."""
    assert process.stderr is not None
    said = (await process.stderr.read()).decode(errors="replace").strip()
    await process.wait()
    return said or f"{name} ended with code {process.returncode} and said nothing"
