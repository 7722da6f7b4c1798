"""Every event survives the wire unchanged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import endpoint, report, request
from vicinal.domain.endpoint import Role
from vicinal.domain.events import (
    AlarmRang,
    BlocksCleared,
    BlocksRemoved,
    BlocksStored,
    ClientGone,
    EndpointReported,
    EndpointUnreachable,
    Event,
    FirstToken,
    LegFailed,
    Measured,
    PrefillDone,
    RelayLost,
    RequestArrived,
    RequestFinished,
    TopologyChanged,
)
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.plan import Leg
from vicinal.domain.pressure import Signal
from vicinal.wire.capture import CaptureError, CaptureHeader, CaptureWriter, read_capture
from vicinal.wire.events import KINDS, UnreadableEventError, decode_event, encode_event

EVENTS: list[Event] = [
    RequestArrived(request("a", 100)),
    PrefillDone(RequestId("a"), 1, 32),
    PrefillDone(RequestId("a"), 1, None, handed_off=False),
    FirstToken(RequestId("a"), 1),
    RequestFinished(RequestId("a"), 1, 5, None),
    LegFailed(RequestId("a"), 2, Leg.DECODE, "reset", started=True),
    ClientGone(RequestId("a")),
    RelayLost(RequestId("a")),
    BlocksRemoved(EndpointId("p"), 1, 4, (b"\x00\xff", 2**64 - 1, -5)),
    BlocksCleared(EndpointId("p"), 1, 4, "gap"),
    EndpointReported(report(EndpointId("p"), 1.5, waiting=2)),
    EndpointUnreachable(EndpointId("p"), "refused"),
    TopologyChanged((endpoint("p", Role.PREFILL), endpoint("d", Role.BOTH, leaf=""))),
    Measured(Signal.REMOTE_READ, None, 1.25),
    Measured(Signal.EVENT_LAG, EndpointId("p"), None),
    AlarmRang(),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
@pytest.mark.mission("C4")
def test_an_event_comes_back_equal(event: Event) -> None:
    assert decode_event(encode_event(event, 1.0 / 3.0)) == (event, 1.0 / 3.0)


def test_every_kind_of_event_is_covered() -> None:
    assert {type(event).__name__ for event in EVENTS} | {"BlocksStored"} == set(KINDS)


@given(
    hashes=st.lists(st.one_of(st.integers(-(2**63), 2**64 - 1), st.binary(max_size=40)), max_size=4),
    parent=st.one_of(st.none(), st.integers(0, 2**64 - 1), st.binary(max_size=32)),
    tokens=st.binary(max_size=64),
    at_s=st.floats(0, 1e9),
)
def test_blocks_come_back_equal(
    hashes: list[int | bytes], parent: int | bytes | None, tokens: bytes, at_s: float
) -> None:
    event = BlocksStored(EndpointId("p"), 3, 9, parent, tuple(hashes), tokens, 16, (b"salt",))
    back, when = decode_event(encode_event(event, at_s))
    assert when == at_s
    assert back == event


@pytest.mark.parametrize(
    "line", [b"", b"{}", b'{"at":1,"event":"Nonsense","body":{}}', b'{"at":1,"event":"FirstToken","body":{}}']
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    with pytest.raises(UnreadableEventError):
        decode_event(line)


def test_a_capture_is_read_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = CaptureWriter(path, CaptureHeader(1, 7, 1.0, "x = 1"))
    for at_s, event in enumerate(EVENTS):
        writer(event, float(at_s))
    writer.close()
    header, events = read_capture(path)
    assert header.seed == 7
    assert list(events) == [(event, float(at_s)) for at_s, event in enumerate(EVENTS)]


def test_a_torn_capture_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    writer = CaptureWriter(path, CaptureHeader(1, 7, 1.0, ""))
    writer(AlarmRang(), 1.0)
    writer.close()
    path.write_bytes(path.read_bytes()[:-5])
    _, events = read_capture(path)
    with pytest.raises(CaptureError, match=r"run\.jsonl:2"):
        list(events)
