"""Runs a coroutine as a program: on uvloop, until it ends or SIGINT or SIGTERM asks it to."""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import sys
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
import uvloop
from msgspec import Struct

from vicinal.gateway.traces import trace_of

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of `main`. Warnings and errors are logged to the error output, one line each."""
    keep_for_good()
    _allow_open_files()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_exception_handler(_unhandled)
        try:
            return runner.run(main)
        except asyncio.CancelledError:
            sys.exit("stopped at once: answers under way are cut off")


def _unhandled(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's own handler would show arguments of callbacks and what errors say: both may be a client's words."""
    error = context.get("exception")
    said = context.get("message", "") if error is None else trace_of(error)
    logging.getLogger("vicinal").error("nobody handled this: %s", said)


def keep_for_good() -> None:
    """To be called when all is loaded, and again when more is: it lives as long as the program. Frozen, it is not
    walked by each full garbage collection, which would stop decisions for as long as dozens of them take."""
    gc.collect()
    gc.freeze()


def _allow_open_files() -> None:
    """As many as the system allows: an engine that is followed takes six to eight, and a usual soft limit is 1,024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems say "unlimited" and mean less
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@contextlib.contextmanager
def stop_on_signal(*, until_input_ends: bool = False) -> Iterator[asyncio.Event]:
    """An event that SIGINT and SIGTERM set, so that what runs can end in order. A second one cancels the caller.

    With `until_input_ends`, the end of our input sets it too: it is a pipe whose other end is whoever started us.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    caller = asyncio.current_task()
    assert caller is not None

    def signalled() -> None:
        if stop.is_set():
            caller.cancel()
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, signalled)

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin.fileno())
            stop.set()

    if until_input_ends:
        loop.add_reader(sys.stdin.fileno(), heard)
    try:
        yield stop
    finally:
        if until_input_ends:
            loop.remove_reader(sys.stdin.fileno())
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def say_ready(ready: Struct) -> None:
    """Tell whoever started us, with one line of JSON, that we serve."""
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.flush()
