"""A live run's log, fed to the same scheduler in virtual time: every effect comes again, alarms and chance included."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.up.test_live import World, body, world
from vicinal.config.fleet import Config
from vicinal.domain.effects import Answer, Effect, RecordObservation
from vicinal.domain.events import AlarmRang, Event
from vicinal.domain.ids import EndpointId
from vicinal.domain.outcome import Ending
from vicinal.wire.capture import CaptureHeader, read_capture
from vicinal.wiring.again import effects_again, scheduler_of

KINDS = {
    "TopologyChanged",
    "EndpointReported",
    "EndpointUnreachable",
    "BlocksStored",
    "BlocksRemoved",
    "RequestArrived",
    "PrefillDone",
    "FirstToken",
    "RequestFinished",
    "LegFailed",
    "ClientGone",
    "AlarmRang",
}
"""What happens in the run below. BlocksCleared is left out: only a restarted engine says it."""


def tight(config: Config) -> Config:
    """Little memory and little patience, so that requests are held, and refused when nobody makes room in time."""
    return msgspec.structs.replace(
        config,
        endpoint=tuple(msgspec.structs.replace(each, kv_tokens=6_400) for each in config.endpoint),
        scheduler=msgspec.structs.replace(config.scheduler, hold_s_max=6.0, seed=5),
    )


@dataclass(slots=True)
class Heard:
    """What goes into the live core, by kind, and every effect that it asks for."""

    w: World
    kinds: set[str] = field(default_factory=set)
    effects: list[Effect] = field(default_factory=list)

    def listen(self) -> None:
        scheduler = self.w.live.scheduler
        handle = scheduler.handle

        def heard(event: Event, now: float) -> Sequence[Effect]:
            effects = handle(event, now)
            self.kinds.add(type(event).__name__)
            self.effects.extend(effects)
            return effects

        scheduler.handle = heard  # type: ignore[method-assign]


async def until(seen: Callable[[], object]) -> None:
    async with asyncio.timeout(20.0):
        while not seen():
            await asyncio.sleep(0.005)


async def eventful(w: World, heard: Heard) -> None:
    """Streams and whole answers, more than fit; a client that leaves; an engine that dies with work on it."""
    async with aiohttp.ClientSession() as http:

        async def ask(seed: int, output: int, **more: object) -> None:
            url = f"{w.url}/v1/completions"
            async with http.post(url, json=body(3_000, output, seed=seed, **more)) as answer:
                await answer.read()

        async def operator() -> None:
            """Reading what the scheduler believes must not change it."""
            while True:
                w.live.state()
                await asyncio.sleep(0.005)

        looking = asyncio.ensure_future(operator())
        asked = [asyncio.ensure_future(ask(n % 9, 1_000 if n else 3_000, stream=n % 2 == 0)) for n in range(14)]
        await until(lambda: "FirstToken" in heard.kinds)
        asked[0].cancel()
        await until(w.busy)
        busy = next(name for name, engine in w.engines.summary()["engines"].items() if engine["legs"])
        await w.engines.kill(EndpointId(busy))
        await asyncio.gather(*asked, return_exceptions=True)
        await until(lambda: "EndpointUnreachable" in heard.kinds)  # the dead one's next scrape
        for first in range(20, 40, 4):  # more prompts than caches hold
            await asyncio.gather(*(ask(first + n, 5, stream=True) for n in range(4)))
        looking.cancel()
        await w.until_idle()


def played(header: CaptureHeader, log: Sequence[tuple[Event, float]]) -> list[Effect]:
    """The same in virtual time."""
    scheduler = scheduler_of(header)
    return [effect for event, at_s in log for effect in scheduler.handle(event, at_s)]


def alarms(header: CaptureHeader, log: Sequence[tuple[Event, float]]) -> list[tuple[float | None, float]]:
    """For each alarm of the log: when the replayed core wants it, and when it rang."""
    scheduler = scheduler_of(header)
    pairs = []
    for event, at_s in log:
        if isinstance(event, AlarmRang):
            pairs.append((scheduler.next_alarm(), at_s))
        scheduler.handle(event, at_s)
    return pairs


@pytest.mark.mission("C4")
@pytest.mark.parametrize("policy", ["cost", "power_of_two"])
async def test_a_captured_run_gives_every_effect_again(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "run.jsonl"
    async with world(tmp_path, policy, tight, path) as w:
        heard = Heard(w)
        heard.listen()
        await eventful(w, heard)
    live = heard.effects
    header, events = read_capture(path)
    log = list(events)

    assert {type(event).__name__ for event, _ in log} == KINDS
    endings = {effect.observation.ending for effect in live if isinstance(effect, RecordObservation)}
    assert {Ending.DONE, Ending.CANCELLED, Ending.WAITED_TOO_LONG} <= endings
    retries_s = [e.outcome.retry_after_s for e in live if isinstance(e, Answer) and e.outcome.retry_after_s]
    assert len(set(retries_s)) > 1, "drawn from the stream of chance"

    again = played(header, log)
    assert again == live == list(effects_again(path))
    assert all(due_s is not None and due_s <= rang_s for due_s, rang_s in alarms(header, log)), "none rings unasked"
    other = played(msgspec.structs.replace(header, seed=header.seed + 1), log)
    assert other != live, "the stream of chance has its part in it"
    moved = [(event, at_s * 1.001 if isinstance(event, AlarmRang) else at_s) for event, at_s in log]
    assert played(header, moved) != live, "and so have the times of alarms"
