"""Runs a coroutine as a program: on uvloop, until it ends or SIGINT or SIGTERM asks it to."""

import asyncio
import contextlib
import gc
import logging
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`. Warnings and errors are logged to the error output, one line each.

    What is loaded by now lives as long as the program: frozen, it is not walked by each full garbage collection, which
    would stop a decision for as long as several take.
    """
    gc.collect()
    gc.freeze()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def stop_on_signal() -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, so that what runs can end in order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
