"""Both ends of the link on real sockets: whose effect goes where, and what a lost end leaves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.builders import endpoint, request
from vicinal.domain.effects import Answer, Dispatch
from vicinal.domain.endpoint import Role
from vicinal.domain.events import ClientGone, Event, FirstToken, RelayLost, RequestArrived
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.gateway.links import core_end, relay_end
from vicinal.gateway.links.core_end import CoreSide, RelayLinks
from vicinal.gateway.links.relay_end import CoreConnection, RelaySide
from vicinal.gateway.links.submissions import Submissions
from vicinal.wire.messages import Beat, ByText, Hello, frame

FLEET = (endpoint("p", Role.PREFILL), endpoint("d", Role.DECODE))
PLAN = Plan(EndpointId("p"), EndpointId("d"), Action.HIT, 0, 0, 0)


def dispatch(name: str) -> Dispatch:
    return Dispatch(RequestId(name), 1, Leg.WHOLE, EndpointId("d"), PLAN)


class CoreRig:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.events: list[Event] = []
        self.elsewhere: list[Any] = []
        self.fleet = FLEET
        self.defect = False
        self.links = self.make()

    def make(self) -> RelayLinks:
        beat = Beat("", (ByText("m", "chat", "p differs"),))
        return RelayLinks(CoreSide(self.post, lambda: self.fleet, lambda: beat, "1"), self.elsewhere.append)

    def post(self, event: Event) -> None:
        self.events.append(event)
        if self.defect and isinstance(event, RequestArrived):
            raise RuntimeError("a defect")


class RelayRig:
    def __init__(self, path: Path, name: str, version: str = "1") -> None:
        self.performed: list[Any] = []
        self.fleets: list[Any] = []
        self.by_text: list[Any] = []
        self.counts = {"gateway_events": {"requests": 0}}
        self.submissions = Submissions(
            self.performed.append,
            lambda _: request(f"{name}-new"),
            asyncio.get_running_loop().time,
            wait_s=10.0,
            waiting_max=10,
            chance=lambda: 0.0,
        )
        side = RelaySide(self.fleets.append, self.by_text.append, lambda: self.counts)
        self.link = CoreConnection(path, Hello(name, 1, version), self.submissions, side)
        self.link.start()

    def arrive(self, name: str) -> None:
        self.submissions.post(RequestArrived(request(name)))


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(10.0):
        while not true():
            await asyncio.sleep(0.005)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for end in (core_end, relay_end):
        monkeypatch.setattr(end, "BEAT_S", 0.02)


@pytest.fixture
async def core(tmp_path: Path) -> AsyncIterator[CoreRig]:
    rig = CoreRig(tmp_path / "core")
    await rig.links.start(rig.path)
    yield rig
    await rig.links.stop()


@pytest.fixture
async def relay(core: CoreRig) -> AsyncIterator[Callable[..., RelayRig]]:
    made: list[RelayRig] = []

    def make(name: str = "relay-1", version: str = "1") -> RelayRig:
        made.append(RelayRig(core.path, name, version))
        return made[-1]

    yield make
    for rig in made:
        await rig.link.stop()


Make = Callable[..., RelayRig]


async def test_effects_go_to_the_relay_that_carries_the_request(core: CoreRig, relay: Make) -> None:
    one, two = relay("relay-1"), relay("relay-2")
    one.arrive("a")
    two.arrive("b")
    await until(lambda: len(core.events) == 2)
    assert one.fleets[0] == two.fleets[0] == FLEET
    for name in "bac":
        core.links.perform(dispatch(name))
    await until(lambda: one.performed and two.performed)
    assert (one.performed, two.performed, core.elsewhere) == ([dispatch("a")], [dispatch("b")], [dispatch("c")])
    one.submissions.post(FirstToken(RequestId("a"), 1))
    await until(lambda: len(core.events) == 3)
    core.links.over(RequestId("a"))
    core.links.perform(dispatch("a"))
    assert core.elsewhere[-1] == dispatch("a"), "what is over belongs to nobody"
    assert [(row["id"], row["requests"]) for row in core.links.shown()] == [("relay-1", 0), ("relay-2", 1)]


async def test_relays_hear_of_the_fleet_and_of_what_is_matched_by_text(core: CoreRig, relay: Make) -> None:
    one = relay()
    await until(lambda: one.by_text)
    assert one.by_text[0] == (ByText("m", "chat", "p differs"),)
    assert one.link.unready == ""
    core.fleet = FLEET[:1]
    core.links.fleet_changed()
    await until(lambda: one.fleets[-1] == FLEET[:1])


async def test_a_relay_that_goes_orphans_its_requests_and_only_those(core: CoreRig, relay: Make) -> None:
    one, two = relay("relay-1"), relay("relay-2")
    one.arrive("a")
    one.arrive("b")
    two.arrive("c")
    await until(lambda: len(core.events) == 3)
    await one.link.stop()
    await until(lambda: len(core.events) == 5)
    assert {event.request_id for event in core.events[3:] if isinstance(event, RelayLost)} == {"a", "b"}
    two.submissions.post(ClientGone(RequestId("c")))
    await until(lambda: len(core.events) == 6)
    assert core.links.counts == {
        "connected": 2, "lost": 1, "orphaned": 2, "renamed": 0, "unreadable": 0, "defects": 0
    }  # fmt: skip


async def test_a_relay_that_comes_again_under_its_name_has_left_its_old_link(core: CoreRig, relay: Make) -> None:
    relay("relay-1").arrive("a")
    await until(lambda: core.events)
    relay("relay-1").arrive("b")
    await until(lambda: core.links.counts["orphaned"])
    assert RelayLost(RequestId("a")) in core.events


async def test_a_name_in_use_at_another_relay_is_given_back(core: CoreRig, relay: Make) -> None:
    one, two = relay("relay-1"), relay("relay-2")
    one.arrive("a")
    await until(lambda: core.events)
    two.arrive("a")
    await until(lambda: len(core.events) == 2)
    assert core.events[1].request.id == "relay-2-new"  # type: ignore[union-attr]
    core.links.perform(dispatch("a"))
    await until(lambda: one.performed)
    assert two.performed == []


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", frame(Hello("r", 1, "2")), frame(Beat(""))])
async def test_who_is_no_relay_of_ours_is_cut_off(core: CoreRig, said: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(str(core.path))
    writer.write(said)
    assert await asyncio.wait_for(reader.read(), 10.0) == b""
    assert core.links.counts["unreadable"] == 1
    assert [*core.links.shown()] == []
    writer.close()


async def test_a_silent_relay_is_cut_off_and_its_requests_are_orphans(
    core: CoreRig, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, writer = await asyncio.open_unix_connection(str(core.path))
    writer.write(frame(Hello("r", 1, "1")) + frame(RequestArrived(request("a")), 1))
    await until(lambda: core.events)
    monkeypatch.setattr(core_end, "SILENCE_S", 0.1)
    await until(lambda: RelayLost(RequestId("a")) in core.events)
    writer.close()


async def test_a_core_that_comes_back_gets_what_waits(core: CoreRig, relay: Make) -> None:
    one = relay()
    one.arrive("a")
    await until(lambda: core.events)
    core.links.perform(dispatch("a"))
    await until(lambda: one.performed)
    await core.links.stop()
    core.path.unlink()
    await until(lambda: one.link.unready)
    one.arrive("b")
    assert one.submissions.waiting == 1
    core.links = core.make()
    await core.links.start(core.path)
    await until(lambda: len(core.events) == 3)
    assert [event.request.id for event in core.events if isinstance(event, RequestArrived)] == ["a", "b"]
    core.links.perform(Answer(RequestId("b"), Outcome(Ending.NO_ENDPOINT, "gone")))
    await until(lambda: len(one.performed) == 2)


async def test_totals_add_up_over_relays_that_live_and_that_are_gone(core: CoreRig, relay: Make) -> None:
    one, two = relay("relay-1"), relay("relay-2")
    one.counts["gateway_events"]["requests"] = 3
    two.counts["gateway_events"]["requests"] = 4
    await until(lambda: core.links.totals().get("gateway_events") == {"requests": 7})
    await one.link.stop()
    await until(lambda: core.links.counts["lost"])
    two.counts["gateway_events"]["requests"] = 5
    await until(lambda: core.links.totals() == {"gateway_events": {"requests": 8}})


async def test_a_defect_of_the_core_ends_one_request_and_no_link(
    core: CoreRig, relay: Make, caplog: pytest.LogCaptureFixture
) -> None:
    one = relay()
    core.defect = True
    one.arrive("a")
    await until(lambda: one.performed)
    assert one.performed[0].outcome.ending is Ending.NO_CORE
    core.defect = False
    one.arrive("b")
    await until(lambda: core.events[-1] == RequestArrived(request("b")))
    assert core.links.counts["defects"] == 1
    assert "handling RequestArrived failed" in caplog.text
