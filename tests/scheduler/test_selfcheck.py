"""Predicted against actual reuse: every cause comes from events; a lasting error names the endpoint and the cure."""

import zlib

import numpy as np
import pytest

from tests.builders import endpoint, racks, request, tokens
from tests.scheduler.play import Play, every, only
from vicinal.cluster.freshness import FreshnessRule
from vicinal.domain.decision import Observation
from vicinal.domain.effects import RecordObservation, Warn
from vicinal.domain.endpoint import Role
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored, PrefillDone, RequestFinished
from vicinal.domain.ids import EndpointId
from vicinal.domain.request import Request
from vicinal.domain.reuse import Reuse
from vicinal.domain.tier import Tier
from vicinal.kvindex.hashing import chain
from vicinal.scheduler.secondlooks import PATIENCE, SOON

P, D = EndpointId("r1-p1"), EndpointId("r1-d1")
PROMPT = tokens(320, 1)
WHOLE_BLOCKS = 304
"""Of a cached prompt of 320 tokens all but the last block is reused."""


def one_pair() -> Play:
    """With reports that stay fresh while tests let heartbeats pass."""
    return Play(racks(1, 1, 1, events_url="tcp://somewhere:1"), freshness=FreshnessRule(heartbeat_s=2.0))


def stored(play: Play, prompt: np.ndarray, first: int = 0, name: int = 1000, salt: bytes = b"") -> None:
    """P holds the blocks of `prompt` from number `first` on; its names continue those of the blocks before."""
    blocks = len(prompt) // 16
    names = tuple(range(name + first, name + blocks))
    ids = prompt[first * 16 : blocks * 16].astype("<u4").tobytes()
    keys = (salt,) * len(names) if salt else ()
    play.feed(BlocksStored(P, 0, 0, name + first - 1 if first else None, names, ids, 16, keys))


def removed(play: Play, *names: int) -> None:
    play.feed(BlocksRemoved(P, 0, 0, names))


def finish(play: Play, name: str) -> Observation:
    play.first_token(name, 0.1)
    return only(RecordObservation, play.finished(name, 0.1)).observation


def ended(play: Play, name: str, cached: int | None) -> Observation:
    """The rest of a request's life, whose engine says `cached`."""
    play.prefilled(name, 0.2, cached=cached)
    return finish(play, name)


@pytest.mark.mission("B16")
def test_a_prediction_that_came_true_is_exact() -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    seen = ended(play, "a", WHOLE_BLOCKS)
    assert (seen.reuse, seen.prefill, seen.ready_tokens) == (Reuse.EXACT, P, WHOLE_BLOCKS)


@pytest.mark.mission("B16")
def test_blocks_lost_between_decision_and_answer_are_named_even_when_they_are_back() -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    removed(play, 1010)
    stored(play, PROMPT, 10)  # computed anew by this very request
    assert ended(play, "a", 160).reuse is Reuse.EVICTED_MEANWHILE


@pytest.mark.mission("B16")
def test_a_loss_of_other_blocks_explains_nothing() -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    removed(play, 1015)  # the engine says that it found ten blocks only, and this is the sixteenth
    assert ended(play, "a", 160).reuse is Reuse.UNEXPLAINED


def test_news_of_a_loss_may_be_later_than_the_answer() -> None:
    """An engine that has a block when it looks reuses it: so the removal came before that, and only its news after."""
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    play.prefilled("a", 0.2, cached=160)
    removed(play, 1010)
    stored(play, PROMPT, 10)
    assert finish(play, "a").reuse is Reuse.EVICTED_MEANWHILE


def test_a_loss_after_the_engine_looked_explains_nothing() -> None:
    """The request itself stored the block anew, and it was evicted then: nobody said why it was not there before."""
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    play.prefilled("a", 0.2, cached=160)
    stored(play, PROMPT, 10)
    removed(play, 1010)
    assert finish(play, "a").reuse is Reuse.UNEXPLAINED


@pytest.mark.mission("B16")
@pytest.mark.parametrize("reason", ["reset", "gap", "restart"])
def test_a_cleared_cache_explains_a_miss(reason: str) -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    play.feed(BlocksCleared(P, 0, 0, reason))
    assert ended(play, "a", 0).reuse is Reuse.EVICTED_MEANWHILE


@pytest.mark.mission("B14", "B16")
def test_blocks_that_a_sibling_had_not_made_in_time() -> None:
    play = one_pair()
    play.arrive(request("first", PROMPT))
    play.arrive(request("second", PROMPT))
    seen = ended(play, "second", 0)
    assert (seen.predicted_cached_tokens, seen.ready_tokens) == (WHOLE_BLOCKS, 0)
    assert seen.reuse is Reuse.EXPECTED_NOT_MADE


@pytest.mark.mission("B16")
def test_more_reuse_than_predicted_is_a_siblings_or_its_events_were_late() -> None:
    for events, cause in (
        ("before the answer", Reuse.STORED_MEANWHILE),
        ("before the end", Reuse.LATE_EVENTS),
        ("never", Reuse.UNEXPLAINED),
    ):
        play = one_pair()
        play.arrive(request("a", PROMPT))
        if events == "before the answer":
            stored(play, PROMPT[:160])
        play.prefilled("a", 0.2, cached=160)
        if events == "before the end":
            stored(play, PROMPT[:160])
        assert finish(play, "a").reuse is cause


def test_an_engine_that_states_nothing_is_not_read_as_zero() -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    assert ended(play, "a", None).reuse is Reuse.ENGINE_SILENT


def test_without_events_an_error_is_one_of_inference() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("first", PROMPT))
    play.arrive(request("second", PROMPT))
    assert ended(play, "second", 160).reuse is Reuse.INFERRED


@pytest.mark.mission("B16")
def test_one_engine_for_both_phases_is_checked_when_the_request_ends() -> None:
    play = Play([endpoint("b", Role.BOTH, events_url="tcp://somewhere:1")], local=True)
    ids = PROMPT.astype("<u4").tobytes()
    play.feed(BlocksStored(EndpointId("b"), 0, 0, None, tuple(range(20)), ids, 16))
    for name, cached, cause in (("a", WHOLE_BLOCKS, Reuse.EXACT), ("b", 160, Reuse.UNEXPLAINED)):
        asked = request(name, PROMPT)
        play.arrive(asked)
        play.first_token(name, 0.1)
        done = play.feed(RequestFinished(asked.id, 1, 5, cached))
        assert only(RecordObservation, done).observation.reuse is cause


def test_a_retry_is_judged_by_its_own_plan() -> None:
    play = Play(racks(1, 2, 1, events_url="tcp://somewhere:1"))
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT, splittable=True))
    went = play.scheduler.requests[request("a", PROMPT).id].plan
    assert went is not None
    play.failed("a", play.scheduler.requests[request("a", PROMPT).id].leg)  # type: ignore[arg-type]
    again = play.scheduler.requests[request("a", PROMPT).id]
    assert again.plan is not None
    assert again.plan.prefill != went.prefill
    seen = ended(play, "a", again.plan.cached_tokens)
    assert (seen.prefill, seen.reuse) == (again.plan.prefill, Reuse.EXACT)


# what lasts is told


def run(play: Play, asked: Request, cached: int | None, events: tuple[np.ndarray, bytes] | None = None) -> list[Warn]:
    """A request to its end with `cached`, the engine's events about it, and the report after the next heartbeat."""
    play.arrive(asked)
    found: list[Warn] = []
    if events is not None:
        stored(play, events[0], name=zlib.crc32(asked.id.encode()), salt=events[1])
    found += every(Warn, play.prefilled(asked.id, 0.2, cached=cached))
    play.first_token(asked.id, 0.1)
    found += every(Warn, play.finished(asked.id, 0.1))
    play.reported("r1-d1", PATIENCE * play.scheduler.state.freshness.heartbeat_s)
    return found + every(Warn, play.reported("r1-p1"))


@pytest.mark.mission("B16")
@pytest.mark.parametrize("difference", ["salt", "tokens"])
def test_tokens_that_differ_from_the_first_block_on_are_told_once_with_the_likely_cause(difference: str) -> None:
    play = one_pair()
    found: list[Warn] = []
    for n in range(12):
        prompt = tokens(320, 100 + n)
        theirs = (prompt, b"salt") if difference == "salt" else (np.roll(prompt, 1), b"")
        found += run(play, request(f"q{n}", prompt), 0, theirs)
    assert [(warning.kind, warning.endpoint) for warning in found] == [("tokens_differ_at_start", P)]
    for word in ("r1-p1", "BOS", "template", "salt", "LoRA"):
        assert word in found[0].text


@pytest.mark.mission("B16")
def test_tokens_that_differ_from_a_later_block_on_are_told_with_its_number() -> None:
    play = one_pair()
    found: list[Warn] = []
    for n in range(12):
        prompt = tokens(320, 100 + n)
        theirs = prompt.copy()
        theirs[200] ^= 1
        found += run(play, request(f"q{n}", prompt), 0, (theirs, b""))
    assert [warning.kind for warning in found] == ["tokens_differ_later"]
    assert "first 12 blocks" in found[0].text
    assert "tools" in found[0].text


def test_a_right_engine_raises_no_suspicion() -> None:
    play = one_pair()
    for n in range(12):
        prompt = tokens(320, 100 + n)
        assert run(play, request(f"q{n}", prompt), 0, (prompt, b"")) == []


@pytest.mark.mission("B16")
def test_a_suspicion_that_was_cured_is_told_again_when_it_is_back() -> None:
    play = one_pair()

    def some(wrong: bool, first: int, count: int) -> list[str]:
        found: list[Warn] = []
        for n in range(first, first + count):
            prompt = tokens(320, 100 + n)
            found += run(play, request(f"q{n}", prompt), 0, (np.roll(prompt, 1) if wrong else prompt, b""))
        return [warning.kind for warning in found]

    assert some(True, 0, 12) == ["tokens_differ_at_start"]
    assert some(False, 12, 30) == []
    assert some(True, 42, 12) == ["tokens_differ_at_start"]


@pytest.mark.mission("B16")
def test_blocks_that_an_engine_said_it_had_and_lacks_without_a_removal() -> None:
    play = one_pair()
    stored(play, PROMPT)
    found: list[Warn] = []
    for n in range(8):
        found += run(play, request(f"q{n}", PROMPT), 0)
    assert [(warning.kind, warning.endpoint) for warning in found] == [("removals_unheard", P)]
    assert play.scheduler.selfcheck.counts == {"unexplained": 8}
    assert "gap" in found[0].text
    assert "reset" in found[0].text


def test_removals_that_are_only_late_are_no_evidence() -> None:
    play = one_pair()
    for n in range(12):
        prompt = tokens(320, 100 + n)
        stored(play, prompt, name=n * 100)
        asked = request(f"q{n}", prompt)
        play.arrive(asked)
        play.prefilled(asked.id, 0.2, cached=0)
        assert finish(play, asked.id).reuse is Reuse.UNEXPLAINED
        removed(play, n * 100)
        play.reported("r1-d1", SOON * play.scheduler.state.freshness.heartbeat_s)
        assert every(Warn, play.reported("r1-p1")) == []
    assert play.scheduler.selfcheck.counts == {"explained": 12}


def test_events_that_come_a_heartbeat_late_are_no_evidence() -> None:
    play = one_pair()
    for n in range(12):
        prompt = tokens(320, 100 + n)
        play.arrive(request(f"q{n}", prompt))
        stored(play, prompt[:32], name=n * 100)
        play.prefilled(f"q{n}", 0.2, cached=0)
        finish(play, f"q{n}")
        play.reported("r1-d1", 2 * SOON * play.scheduler.state.freshness.heartbeat_s)
        assert every(Warn, play.reported("r1-p1")) == []
        stored(play, prompt, 2, name=n * 100)
        play.reported("r1-d1", SOON * play.scheduler.state.freshness.heartbeat_s)
        assert every(Warn, play.reported("r1-p1")) == []


@pytest.mark.mission("B16")
def test_computed_blocks_without_events() -> None:
    play = one_pair()
    found: list[Warn] = []
    for n in range(8):
        found += run(play, request(f"q{n}", tokens(320, n)), 0)
    assert [(warning.kind, warning.endpoint) for warning in found] == [("no_block_events", P)]


@pytest.mark.mission("B16")
def test_reuse_that_is_no_multiple_of_the_block_shows_another_block_size_at_once() -> None:
    play = one_pair()
    stored(play, PROMPT)
    play.arrive(request("a", PROMPT))
    warning = only(Warn, play.prefilled("a", 0.2, cached=136))
    assert (warning.kind, warning.endpoint) == ("block_size", P)


@pytest.mark.mission("B16")
def test_an_engine_that_never_states_its_reuse_is_named_with_the_flag() -> None:
    play = one_pair()
    stored(play, PROMPT)
    found: list[Warn] = []
    for n in range(12):
        asked = request(f"q{n}", PROMPT)
        play.arrive(asked)
        found += every(Warn, play.prefilled(asked.id, 0.2, cached=None))
        play.gone(asked.id)
    assert [warning.kind for warning in found] == ["engine_silent"]
    assert "--enable-prompt-tokens-details" in found[0].text


def test_a_stream_without_usage_speaks_for_nothing() -> None:
    """One engine serves it whole, and its client did not ask: the flag may be there."""
    play = Play([endpoint("b", Role.BOTH, events_url="tcp://somewhere:1")], local=True)
    ids = PROMPT.astype("<u4").tobytes()
    play.feed(BlocksStored(EndpointId("b"), 0, 0, None, tuple(range(20)), ids, 16))
    for n in range(12):
        asked = request(f"q{n}", PROMPT, streamed=True)
        play.arrive(asked)
        play.first_token(asked.id, 0.1)
        done = play.feed(RequestFinished(asked.id, 1, 5, None, usage_asked=False))
        assert every(Warn, done) == []
        assert only(RecordObservation, done).observation.reuse is Reuse.NOT_ASKED


def test_silence_where_nothing_was_expected_may_be_a_zero() -> None:
    play = one_pair()
    for n in range(12):
        asked = request(f"q{n}", tokens(320, n))
        play.arrive(asked)
        assert every(Warn, play.prefilled(asked.id, 0.2, cached=None)) == []
        play.gone(asked.id)


def decode_side(play: Play, name: str, prompt: np.ndarray) -> None:
    asked = request(name, prompt)
    play.arrive(asked)
    play.feed(PrefillDone(asked.id, 1, 0))
    play.first_token(name, 0.1)
    play.finished(name, 0.1)


@pytest.mark.mission("A7", "B16")
@pytest.mark.parametrize("lies", [False, True])
def test_a_decode_endpoint_that_pulls_what_it_should_hold(lies: bool) -> None:
    """Plans count on 3,072 tokens held there; the engine's counter grows by all 4,096 of each prompt."""
    play = Play(racks(1, 1, 1, events_url="tcp://somewhere:1"))
    held = tokens(3_072, 5)
    play.feed(BlocksStored(D, 0, 0, None, tuple(range(192)), held.astype("<u4").tobytes(), 16))
    found: list[Warn] = []
    pulled = 0
    found += every(Warn, play.reported("r1-d1", 0.0, prompt_pulled_tokens=0))
    for n in range(60):
        decode_side(play, f"q{n}", np.concatenate((held, tokens(1_024, 100 + n))))
        pulled += 4_096 if lies else 1_024
        found += every(Warn, play.reported("r1-d1", 0.1, prompt_pulled_tokens=pulled))
    assert [(warning.kind, warning.endpoint) for warning in found] == ([("decode_pulls_more", D)] if lies else [])


def test_a_counter_that_begins_anew_is_no_evidence() -> None:
    play = Play(racks(1, 1, 1))
    play.reported("r1-d1", 0.0, prompt_pulled_tokens=1e6)
    for n in range(60):
        decode_side(play, f"q{n}", tokens(4_096, n))
        assert every(Warn, play.reported("r1-d1", 0.1, prompt_pulled_tokens=4_096.0 * n)) == []


def test_the_salt_of_a_request_is_part_of_its_hashes() -> None:
    """What the parser does for `cache_salt` is what the engine's extra keys do: the check sees no difference."""
    play = one_pair()
    for n in range(8):
        prompt = tokens(320, 100 + n)
        salted = request(f"q{n}", prompt, block_hashes=chain(prompt.tobytes(), 16, extra_keys=(b"salt",)))
        play.arrive(salted)
        ids = prompt.astype("<u4").tobytes()
        names = tuple(range(n * 100, n * 100 + 20))
        play.feed(BlocksStored(P, 0, 0, None, names, ids, 16, (b"salt", *[b""] * 19)))
        play.prefilled(salted.id, 0.2, cached=0)
        play.first_token(salted.id, 0.1)
        play.finished(salted.id, 0.1)
        play.reported("r1-d1", PATIENCE * play.scheduler.state.freshness.heartbeat_s)
        assert every(Warn, play.reported("r1-p1")) == []


@pytest.mark.mission("B1", "B16")
@pytest.mark.parametrize(("cached", "cause"), [(WHOLE_BLOCKS, Reuse.EXACT), (160, Reuse.NOT_LOADED), (80, None)])
def test_what_was_to_be_loaded_from_below_and_was_not(cached: int, cause: Reuse | None) -> None:
    """Ten blocks in HBM, all twenty in host memory."""
    play = one_pair()
    ids = PROMPT.astype("<u4").tobytes()
    play.feed(BlocksStored(P, 0, 0, None, tuple(range(1000, 1020)), ids, 16, tier=Tier.HOST))
    stored(play, PROMPT[:160])
    play.arrive(request("a", PROMPT))
    assert ended(play, "a", cached).reuse is (cause or Reuse.UNEXPLAINED)
