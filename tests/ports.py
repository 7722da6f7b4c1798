"""Ports for the servers that tests start: below those that systems give out, and each test worker has its own."""

import itertools
import os
import socket
from collections.abc import Iterator

FIRST, PER_WORKER, WORKERS = 12_000, 3_000, 6


def _own_ports() -> Iterator[int]:
    """A worker's ports, round and round: one that was just used is the last to come again."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST + worker % WORKERS * PER_WORKER
    start = os.getpid() % PER_WORKER  # two runs at once seldom meet
    return itertools.cycle([*range(first + start, first + PER_WORKER), *range(first, first + start)])


_PORTS = _own_ports()


def free_port() -> int:
    """The next of the worker's ports that nobody uses."""
    for port in itertools.islice(_PORTS, PER_WORKER):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no free ports")


def free_row(count: int) -> int:
    """The first of `count` ports in a row that nobody uses."""
    first = last = free_port()
    while last - first < count - 1:
        port = free_port()
        first, last = (first if port == last + 1 else port), port
    return first
