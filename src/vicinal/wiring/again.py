"""A captured run, decided again: the same scheduler fed the same events in the same order, without clock or sockets."""

from collections.abc import Iterator
from pathlib import Path

from vicinal.config.load import parse
from vicinal.domain.effects import Effect
from vicinal.wire.capture import read_capture
from vicinal.wiring.core import make_scheduler


def effects_again(path: Path) -> Iterator[Effect]:
    """Every effect that the core asks for, in order. Raises CaptureError for a capture that cannot be read.

    They are the live run's own, decision for decision: nothing but events, their times and the seed goes into the core.
    """
    header, events = read_capture(path)
    scheduler = make_scheduler(parse(header.config, str(path), {}), header.heartbeat_s)
    for event, at_s in events:
        yield from scheduler.handle(event, at_s)
