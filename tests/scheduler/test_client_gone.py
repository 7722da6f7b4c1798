"""A client may leave at any moment; everything that its request had is given back."""

from collections.abc import Callable

import pytest

from tests.builders import racks, request
from tests.scheduler.play import Play, every, idle, kinds, only
from vicinal.domain.effects import Cancel, Dispatch, RecordObservation
from vicinal.domain.events import RelayLost
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Leg
from vicinal.scheduler.states import State


def prefilling(play: Play) -> None:
    play.arrive(request("a"))


def prefill_ended_it(play: Play) -> None:
    prefilling(play)
    play.prefilled("a", 0.5, handed_off=False)


def transferring(play: Play) -> None:
    prefilling(play)
    play.prefilled("a", 0.5)


def decoding(play: Play) -> None:
    transferring(play)
    play.first_token("a", 0.1)


def whole(play: Play) -> None:
    play.arrive(request("a", splittable=False))


def whole_decoding(play: Play) -> None:
    whole(play)
    play.first_token("a", 0.1)


def second_attempt(play: Play) -> None:
    prefilling(play)
    play.failed("a", Leg.PREFILL)


@pytest.mark.mission("B11")
@pytest.mark.parametrize(
    ("reach", "state", "attempt"),
    [
        (prefilling, State.PREFILLING, 1),
        (prefill_ended_it, State.DECODING, 1),
        (transferring, State.TRANSFERRING, 1),
        (decoding, State.DECODING, 1),
        (whole, State.PREFILLING, 1),
        (whole_decoding, State.DECODING, 1),
        (second_attempt, State.PREFILLING, 2),
    ],
)
def test_leaving_cancels_the_attempt_and_releases_everything(
    reach: Callable[[Play], None], state: State, attempt: int
) -> None:
    play = Play()
    reach(play)
    assert play.scheduler.requests["a"].state is state
    effects = play.gone("a", 0.1)
    assert kinds(effects) == ["Cancel", "RecordObservation"], "nobody is there to be answered"
    assert only(Cancel, effects).attempt == attempt
    assert only(RecordObservation, effects).observation.ending == Ending.CANCELLED
    assert idle(play)
    assert play.gone("a") == []


@pytest.mark.mission("B11")
@pytest.mark.parametrize("reach", [prefilling, prefill_ended_it, transferring, decoding, whole, second_attempt])
def test_a_relay_that_dies_orphans_its_request_and_releases_everything(reach: Callable[[Play], None]) -> None:
    play = Play()
    reach(play)
    effects = play.feed(RelayLost(RequestId("a")), 0.1)
    assert kinds(effects) == ["RecordObservation"], "nobody is there to be answered, nor to cancel anything"
    assert only(RecordObservation, effects).observation.ending == Ending.ORPHANED
    assert idle(play)
    assert play.feed(RelayLost(RequestId("a"))) == []


def test_a_held_request_whose_relay_died_lets_the_next_move_up() -> None:
    play = Play(racks(1, 1, 1, sequences_max=1))
    for name in ("a", "b"):
        play.arrive(request(name))
    effects = play.feed(RelayLost(RequestId("a")), 1.0)
    assert only(Dispatch, effects).request_id == "b"


def test_leaving_the_queue_lets_the_next_move_up() -> None:
    play = Play(racks(1, 1, 1, sequences_max=1))
    play.arrive(request("a"))
    play.arrive(request("b"))
    play.arrive(request("c"))
    effects = play.gone("b", 1.0)
    assert kinds(effects) == ["Cancel", "RecordObservation"]
    assert only(RecordObservation, effects).observation.held_s == 1.0
    assert [d.request_id for d in every(Dispatch, play.gone("a"))] == ["c"]
    play.gone("c")
    assert idle(play)
