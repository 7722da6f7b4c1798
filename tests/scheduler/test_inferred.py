"""What endpoints hold that do not tell: believed when it is computed, until it is old, lost, or they speak."""

from dataclasses import replace

import pytest

from tests.builders import endpoint, racks, request, tokens
from tests.scheduler.play import Play, every, only
from vicinal.domain.effects import Record, Warn
from vicinal.domain.endpoint import Role
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.ids import EndpointId
from vicinal.kvindex.inferred import TTL_S

pytestmark = pytest.mark.mission("B12", "B16")

PROMPT = tokens(1600, 1)
TELLS = "tcp://somewhere:1"


def held(play: Play, name: str) -> int:
    slot = play.scheduler.state.slot(EndpointId(name))
    assert slot is not None
    return play.scheduler.state.index.blocks_held(slot)


def test_a_prompt_is_believed_where_it_was_prefilled_and_where_it_was_handed() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a", PROMPT))
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (0, 0)
    play.prefilled("a", 0.5)
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (100, 0)
    play.first_token("a", 0.2)
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (100, 100)
    play.finished("a", 1.0)
    plan = only(Record, play.arrive(request("b", PROMPT), 1.0)).decision.chosen.plan
    assert (plan.cached_tokens, plan.held_tokens) == (1584, 1584)  # an engine computes at least the last token itself


def test_an_engine_that_tells_is_believed_when_it_does() -> None:
    play = Play(racks(1, 1, 1, events_url=TELLS))
    play.run(request("a", PROMPT))
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (0, 0)


def test_an_answer_that_comes_whole_shows_no_first_token_and_is_believed_too() -> None:
    play = Play([endpoint("b", Role.BOTH)], local=True)
    play.arrive(request("a", PROMPT))
    play.finished("a", 1.0)
    assert held(play, "b") == 100


def test_a_failed_prefill_leaves_nothing() -> None:
    play = Play([endpoint("b", Role.BOTH)], local=True)
    play.arrive(request("a", PROMPT))
    play.gone("a", 1.0)
    assert held(play, "b") == 0


def test_what_is_old_lost_or_left_is_not_believed() -> None:
    play = Play(racks(1, 1, 1))
    play.run(request("a", PROMPT))
    play.unreachable("r1-p1", 1.0)
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (0, 100)
    play.reported("r1-p1", TTL_S)
    play.arrive(request("b", PROMPT))
    assert held(play, "r1-d1") == 0
    play.prefilled("b")
    assert held(play, "r1-p1") == 100
    play.fleet([endpoint("r1-p1", Role.PREFILL, kv_blocks=10), *racks(1, 0, 1)])
    assert held(play, "r1-p1") == 0


def test_no_more_is_believed_than_there_is_room_for() -> None:
    play = Play([endpoint("b", Role.BOTH, kv_blocks=250)], local=True)
    for number in range(4):
        play.run(request(f"r{number}", tokens(1600, number)))
    assert held(play, "b") == 200
    assert play.scheduler.state.inferred.given_up == 2


def test_an_engine_that_speaks_up_is_believed_instead() -> None:
    play = Play(racks(1, 1, 1))
    play.run(request("a", PROMPT))
    play.stored("r1-p1", tokens(64, 5), 1.0)
    assert held(play, "r1-p1") == 4
    assert play.scheduler.state.inferred.blocks(0) == 0


def test_blocks_named_by_text_are_inferred_beside_what_events_tell() -> None:
    play = Play(racks(1, 1, 1, events_url=TELLS))
    by_text = replace(request("a", PROMPT), inferred_only=True)
    play.run(by_text)
    play.stored("r1-p1", tokens(64, 5), 1.0)
    assert held(play, "r1-p1") == 104
    decision = only(Record, play.arrive(replace(by_text, id="b"), 1.0)).decision  # type: ignore[arg-type]
    assert {age.name: (age.source, age.age_s) for age in decision.inputs}["prefill_blocks"] == (
        "text of own dispatches",
        3.0,
    )
    play.feed(BlocksRemoved(EndpointId("r1-p1"), 0, 1, (1000, 1001)))
    assert held(play, "r1-p1") == 102
    play.feed(BlocksCleared(EndpointId("r1-p1"), 0, 2, "reset"))
    assert held(play, "r1-p1") == 0


def test_a_restart_that_only_a_new_incarnation_shows_ends_what_was_inferred() -> None:
    play = Play(racks(1, 1, 1, events_url=TELLS))
    play.stored("r1-p1", tokens(64, 5))
    play.run(replace(request("a", PROMPT), inferred_only=True))
    assert held(play, "r1-p1") == 104
    play.feed(BlocksRemoved(EndpointId("r1-p1"), 1, 0, ()))
    assert (held(play, "r1-p1"), play.scheduler.state.inferred.blocks(0)) == (0, 0)


def test_a_prompt_without_hashes_is_looked_for_nowhere() -> None:
    play = Play(racks(1, 1, 1, events_url=TELLS))
    decision = only(Record, play.arrive(replace(request("a", PROMPT), block_hashes=b""))).decision
    assert {age.name: (age.source, age.age_s) for age in decision.inputs}["prefill_blocks"] == ("none", None)


def test_events_in_another_block_size_are_refused_loudly_and_what_is_there_is_inferred() -> None:
    play = Play(racks(1, 1, 1, events_url=TELLS))

    def stored(size: int, name: int) -> list[Warn]:
        event = BlocksStored(EndpointId("r1-p1"), 0, 0, None, (name,), tokens(size, 1).tobytes(), size)
        return every(Warn, play.feed(event))

    (warning,) = stored(32, 1)
    assert (warning.kind, warning.endpoint) == ("block_size", "r1-p1")
    assert "blocks of 32 tokens" in warning.text
    assert "model.block_tokens = 32" in warning.text
    assert stored(32, 2) == []
    assert len(stored(64, 3)) == 1
    assert play.scheduler.state.engine_blocks.counts == {"wrong_block_size": 3}
    play.run(request("a", PROMPT))
    assert (held(play, "r1-p1"), held(play, "r1-d1")) == (100, 0)
    assert stored(16, 4) == []  # the engine runs with the right size now, and speaks for itself
    assert held(play, "r1-p1") == 1
