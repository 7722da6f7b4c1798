"""What core and relays say survives the socket unchanged, however it is cut; anything else is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import endpoint, request
from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.endpoint import Role
from vicinal.domain.events import ClientGone, FirstToken, LegFailed, PrefillDone, RequestArrived, RequestFinished
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.wire.messages import (
    FRAME_BYTES_MAX,
    Beat,
    ByText,
    Counts,
    Fleet,
    FrameError,
    FrameReader,
    Hello,
    Taken,
    frame,
)

A = RequestId("a")
PLAN = Plan(EndpointId("p"), EndpointId("d"), Action.HIT, 16, 0, 32)
MESSAGES: list[Any] = [
    Hello("relay-1", 7, "1"),
    Counts({"gateway_events": {"requests": 3}}),
    RequestArrived(request("a", 100)),
    PrefillDone(A, 1, None),
    FirstToken(A, 1),
    RequestFinished(A, 1, 5, 2, False),
    LegFailed(A, 2, Leg.DECODE, "reset", started=True),
    ClientGone(A),
    Fleet((endpoint("p", Role.PREFILL), endpoint("d", Role.DECODE))),
    Beat("nobody decodes", (ByText("m", "chat", "p tokenises it differently"),)),
    Taken(),
    Dispatch(A, 1, Leg.PREFILL, EndpointId("p"), PLAN),
    Cancel(A, 1),
    Answer(A, Outcome(Ending.NO_ENDPOINT, "all are gone", 2.5)),
]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.sampled_from(MESSAGES))), st.data())
def test_any_cut_of_the_stream_gives_the_same_messages(said: list[tuple[int, Any]], data: st.DataObject) -> None:
    stream = b"".join(frame(message, number) for number, message in said)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    heard = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        heard += reader.feed(stream[start:end])
    assert heard == said


@pytest.mark.parametrize("message", MESSAGES, ids=lambda one: type(one).__name__)
def test_a_frame_that_is_no_message_is_refused(message: Any) -> None:
    good = frame(message)
    with pytest.raises(FrameError, match="kind 255"):
        list(FrameReader().feed(good[:4] + b"\xff" + good[5:]))
    with pytest.raises(FrameError, match="cannot be read"):
        list(FrameReader().feed(b"\x01\0\0\0" + good[4:13] + b"\xc1"))
    with pytest.raises(FrameError, match=str(FRAME_BYTES_MAX + 1)):
        list(FrameReader().feed((FRAME_BYTES_MAX + 1).to_bytes(4, "little") + good[4:]))
