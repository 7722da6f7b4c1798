"""An engine that contradicts its description is named, once, with the setting."""

import pytest

from tests.builders import racks
from tests.scheduler.play import Play, every, only
from vicinal.domain.effects import Warn


@pytest.mark.mission("B12", "B16")
def test_a_wrong_block_size_is_loud_and_said_once() -> None:
    play = Play(racks(1, 1, 1))
    warning = only(Warn, play.reported("r1-p1", 0.1, block_tokens=32))
    assert (warning.kind, warning.endpoint) == ("block_tokens", "r1-p1")
    assert "block_tokens = 32" in warning.text
    assert "16" in warning.text
    assert every(Warn, play.reported("r1-p1", 0.1, block_tokens=32)) == []
    assert only(Warn, play.reported("r1-d1", 0.1, kv_blocks=10)).kind == "kv_blocks"


@pytest.mark.mission("B12")
def test_an_endpoint_that_stops_answering_is_named_once_until_it_is_back() -> None:
    play = Play(racks(1, 1, 1))
    warning = only(Warn, play.unreachable("r1-p1"))
    assert (warning.kind, warning.endpoint) == ("unreachable", "r1-p1")
    assert "timed out" in warning.text
    assert every(Warn, play.unreachable("r1-p1", 1.0)) == []
    play.reported("r1-p1", 1.0)
    assert only(Warn, play.unreachable("r1-p1", 1.0)).endpoint == "r1-p1"


def test_an_endpoint_that_never_answered_is_named_too() -> None:
    play = Play(racks(1, 1, 1), reported=False)
    assert only(Warn, play.unreachable("r1-p1")).kind == "unreachable"
    assert every(Warn, play.unreachable("r1-p1", 1.0)) == []


def test_an_engine_that_agrees_or_does_not_say_raises_no_doubt() -> None:
    play = Play(racks(1, 1, 1))
    assert play.reported("r1-p1", 0.1) == []
    assert play.reported("r1-p1", 0.1, block_tokens=16, kv_blocks=75_000) == []


@pytest.mark.mission("B12")
def test_a_cure_that_does_not_cure_is_named_again() -> None:
    """The operator changes the description, and the engine still says something else."""
    play = Play(racks(1, 1, 1))
    play.reported("r1-p1", 0.1, kv_blocks=10)
    play.fleet(racks(1, 1, 1, kv_blocks=20))
    warning = only(Warn, play.reported("r1-p1", 0.1, kv_blocks=10))
    assert "says kv_blocks = 10, its configuration says 20" in warning.text
    assert every(Warn, play.reported("r1-p1", 0.1, kv_blocks=10)) == []
