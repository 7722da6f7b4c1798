"""What every made workload promises, whichever it is."""

import tracemalloc
from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workload.made import VOCABULARY, every_turn, names
from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError
from vicinal.workload.generators import GENERATORS, generate

ALL = sorted(GENERATORS)
CLOSED = ("conversation_closed", "tool_agent")
DIALOGUES = ("conversation", *CLOSED)


def made(name: str, **arguments) -> list[Arrival]:
    return list(every_turn(generate(name, VOCABULARY, **arguments)))


def content(arrivals: list[Arrival]) -> list[tuple]:
    """All of each request but what follows it: a cut session has fewer turns to come."""
    return [(a.at_s, a.prompt, a.output_tokens, a.session, a.tenant, a.model, a.answer) for a in arrivals]


@pytest.mark.parametrize("name", ALL)
def test_equal_arguments_give_equal_workloads_and_other_seeds_share_no_text(name: str) -> None:
    one, again, other = (made(name, seed=seed, count=200) for seed in (3, 3, 4))
    assert one == again
    streams = [{piece.stream for arrival in each for piece in arrival.prompt.pieces} for each in (one, other)]
    assert not streams[0] & streams[1]


@settings(deadline=None, max_examples=12)
@given(count=st.integers(0, 250), seed=st.integers(0, 99))
@pytest.mark.parametrize("name", ALL)
def test_a_longer_one_begins_with_the_shorter_one(name: str, count: int, seed: int) -> None:
    longer = content(made(name, seed=seed, count=300))
    assert len(longer) == 300
    assert content(made(name, seed=seed, count=count)) == longer[:count]


@pytest.mark.parametrize("name", ALL)
def test_it_ascends_in_time_until_its_end(name: str) -> None:
    arrivals = list(generate(name, VOCABULARY, duration_s=100.0))
    stamps_s = [arrival.at_s for arrival in arrivals]
    assert stamps_s == sorted(stamps_s)
    assert stamps_s[0] >= 0
    assert stamps_s[-1] < 100.0
    shorter = list(generate(name, VOCABULARY, duration_s=60.0))
    assert shorter == [arrival for arrival in arrivals if arrival.at_s < 60.0]
    assert list(generate(name, VOCABULARY, duration_s=60.0, count=5)) == list(generate(name, VOCABULARY, count=5))


@pytest.mark.parametrize("name", ALL)
def test_wrong_ends_and_rates_are_refused_before_the_first_request(name: str) -> None:
    with pytest.raises(ValueError, match="count or duration_s"):
        generate(name, VOCABULARY)
    with pytest.raises(ParameterError, match="count must be at least 0 and finite, not -1"):
        generate(name, VOCABULARY, count=-1)
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ParameterError, match="rate must be positive and finite"):
            generate(name, VOCABULARY, count=1, rate=rate)


@pytest.mark.parametrize("name", ALL)
def test_only_what_is_asked_for_is_made_and_nothing_is_kept(name: str) -> None:
    """Of ten million requests, the memory that the first ones take does not grow with how many have been passed on."""
    arrivals, step = generate(name, VOCABULARY, count=10_000_000), 80 if name == "tool_agent" else 2000
    list(islice(arrivals, step))
    tracemalloc.start()
    try:
        peaks = []
        for _ in range(5):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            for _ in islice(arrivals, step):
                pass
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < 2_000_000
    assert max(peaks) < 1_000_000


@pytest.mark.parametrize("name", ALL)
def test_a_rate_changes_when_requests_come_and_not_which(name: str) -> None:
    quiet = {"hot_tenant": {"flood": "0"}, "hot_prefix": {"hot": "0"}}.get(name, {})
    slow, fast = (
        list(islice(generate(name, VOCABULARY, count=100_000, rate=rate, parameters=quiet), 300)) for rate in (2.0, 8.0)
    )
    if name == "conversation":
        first = [{a.session: a for a in reversed(each)} for each in (slow, fast)]
        both = sorted(first[0].keys() & first[1].keys())
        slow, fast = ([each[session] for session in both] for each in first)
    assert len(slow) >= 40
    assert [(a.prompt, a.output_tokens, a.tenant, a.model) for a in slow] == [
        (a.prompt, a.output_tokens, a.tenant, a.model) for a in fast
    ]
    assert np.allclose([a.at_s for a in slow], [4 * a.at_s for a in fast])


@pytest.mark.parametrize("name", ALL)
def test_the_rate_is_in_requests_per_second(name: str) -> None:
    """Within five standard deviations of a compound process, larger where gaps are bursty."""
    quiet = {"hot_tenant": {"flood": "0"}, "hot_prefix": {"hot": "0"}}.get(name, {})
    rate, warm_s, end_s = 20.0, 60.0, 560.0
    arrivals = [
        arrival
        for arrival in generate(name, VOCABULARY, duration_s=end_s, rate=rate, parameters=quiet)
        if arrival.at_s >= warm_s
    ]
    if name == "conversation":
        sizes = list(Counter(a.session for a in arrivals).values())
    else:
        sizes = [1 + len(a.later) for a in arrivals]
    burst = 2.5 if name == "hot_tenant" else 1.0
    expected = rate * (end_s - warm_s)
    assert abs(sum(sizes) - expected) < 5 * burst * np.sqrt(np.square(sizes).sum())


@pytest.mark.mission("A7")
@pytest.mark.parametrize("name", DIALOGUES)
def test_a_next_turn_repeats_prompt_and_answer_so_what_the_decoder_holds_can_be_reused(name: str) -> None:
    sessions: dict[str | None, list[Arrival]] = {}
    for arrival in made(name, count=600):
        sessions.setdefault(arrival.session, []).append(arrival)
    repeated = 0
    for turns in sessions.values():
        for before, after in pairwise(turns):
            assert before.answer is not None
            assert before.answer.tokens == before.output_tokens
            history = len(before.prompt.pieces) + 1
            assert after.prompt.pieces[:history] == (*before.prompt.pieces, before.answer)
            shared = names(before)
            assert names(after)[: len(shared)] == shared
            repeated += 1
    assert repeated > 300


@pytest.mark.parametrize("name", sorted(set(ALL) - set(DIALOGUES)))
def test_requests_of_their_own_wait_for_nobody(name: str) -> None:
    assert all(arrival.answer is None and not arrival.later for arrival in made(name, count=100))


def test_open_and_closed_conversations_have_the_same_sessions() -> None:
    closed = made("conversation_closed", duration_s=200.0)
    opened = made("conversation", duration_s=1000.0)
    turns: dict[str | None, list] = {}
    for arrival in opened:
        turns.setdefault(arrival.session, []).append((arrival.prompt, arrival.output_tokens, arrival.tenant))
    ours: dict[str | None, list] = {}
    for arrival in closed:
        ours.setdefault(arrival.session, []).append((arrival.prompt, arrival.output_tokens, arrival.tenant))
    assert len(ours) > 200
    assert all(turns[session] == said for session, said in ours.items())


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_loop_waits_for_its_answers(name: str) -> None:
    first = next(a for a in generate(name, VOCABULARY, count=500) if len(a.later) > 2)
    second = first.following(answered_s=first.at_s + 100.0)
    assert second is not None
    assert second.at_s == first.at_s + 100.0 + first.later[0].pause_s
    assert first.later[0].pause_s > 0


def test_no_session_fits() -> None:
    arrivals = generate("conversation", VOCABULARY, count=1, parameters={"prompt_tokens_max": "100"})
    with pytest.raises(ParameterError, match="no first prompt fits prompt_tokens_max=100"):
        next(arrivals)
