"""A captured run, decided again: the same scheduler fed the same events in the same order, without clock or sockets."""

from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from vicinal.config.load import parse
from vicinal.domain.effects import Effect
from vicinal.scheduler.scheduler import Scheduler
from vicinal.wire.capture import CaptureHeader, read_capture
from vicinal.wiring.core import make_scheduler


def effects_again(path: Path) -> Iterator[Effect]:
    """Every effect that the core asks for, in order. Raises CaptureError for a capture that cannot be read.

    They are the live run's own, decision for decision: nothing but events, their times and the seed goes into the core.
    """
    header, events = read_capture(path)
    scheduler = scheduler_of(header, str(path))
    for event, at_s in events:
        yield from scheduler.handle(event, at_s)


def scheduler_of(header: CaptureHeader, source: str = "the capture") -> Scheduler:
    """The core that a capture's events went into, at its beginning. `source` names the capture in errors."""
    config = parse(header.config, source, {})
    return make_scheduler(replace(config, scheduler=replace(config.scheduler, seed=header.seed)), header.heartbeat_s)
