"""The shipped workload is reproducible, is made of conversations, and has the figures that its docstring claims."""

import itertools

import numpy as np
import pytest

from vicinal.workload import conversation as made
from vicinal.workload.arrival import Arrival
from vicinal.workload.conversation import Shape
from vicinal.workload.prompt import Vocabulary

VOCABULARY = Vocabulary(5, 1024)


def conversation(vocabulary: Vocabulary, **arguments) -> list[Arrival]:
    return list(made.conversation(vocabulary, **arguments))


def test_equal_seeds_are_equal_and_others_are_not() -> None:
    assert conversation(VOCABULARY, seed=3, count=50) == conversation(VOCABULARY, seed=3, count=50)
    assert conversation(VOCABULARY, seed=3, count=50) != conversation(VOCABULARY, seed=4, count=50)


@pytest.mark.parametrize("count", [0, 1, 17, 120])
def test_a_longer_workload_begins_with_the_shorter_one(count: int) -> None:
    assert conversation(VOCABULARY, count=count) == conversation(VOCABULARY, count=200)[:count]
    whole = conversation(VOCABULARY, duration_s=60.0)
    assert conversation(VOCABULARY, duration_s=60.0, count=count) == whole[:count]
    assert whole == [a for a in conversation(VOCABULARY, duration_s=90.0) if a.at_s < 60.0]


def test_it_ascends_in_time_and_needs_an_end() -> None:
    stamps_s = [a.at_s for a in conversation(VOCABULARY, duration_s=120.0)]
    assert stamps_s == sorted(stamps_s)
    assert stamps_s[0] >= 0
    assert stamps_s[-1] < 120.0
    with pytest.raises(ValueError, match="count or duration_s"):
        conversation(VOCABULARY)


def test_a_turn_extends_the_one_before_by_its_answer_and_new_text() -> None:
    turns: dict[str | None, list] = {}
    for arrival in conversation(VOCABULARY, count=150):
        turns.setdefault(arrival.session, []).append(arrival)
    assert max(len(session) for session in turns.values()) >= 4
    for session in turns.values():
        for before, after in itertools.pairwise(session):
            history = len(before.prompt.pieces)
            assert after.prompt.pieces[:history] == before.prompt.pieces
            assert len(after.prompt.pieces) == history + 2
            assert after.prompt.pieces[history].tokens == before.output_tokens
            assert after.at_s > before.at_s
            assert after.tenant == before.tenant
    first, second = next(session for session in turns.values() if len(session) > 1)[:2]
    assert np.array_equal(second.prompt_token_ids[: first.prompt_tokens], first.prompt_token_ids)


def test_sessions_share_system_prompts_and_nothing_else() -> None:
    arrivals = conversation(VOCABULARY, count=300)
    systems = {a.prompt.pieces[0] for a in arrivals}
    assert {piece.tokens for piece in systems} <= set(Shape().system_prompts_tokens)
    assert 1 < len(systems) <= len(Shape().system_prompts_tokens)
    owner: dict[int, str | None] = {}
    for arrival in arrivals:
        for piece in arrival.prompt.pieces[1:]:
            assert owner.setdefault(piece.stream, arrival.session) == arrival.session
            assert piece.stream not in {system.stream for system in systems}


def test_two_seeds_share_no_stream() -> None:
    streams = [{p.stream for a in conversation(VOCABULARY, seed=s, count=100) for p in a.prompt.pieces} for s in (0, 1)]
    assert not streams[0] & streams[1]


def test_the_first_seconds_already_reuse_a_prefix() -> None:
    """`vicinal up` shows hits at once: within five model seconds a system prompt comes a second time."""
    systems = [a.prompt.pieces[0] for a in conversation(VOCABULARY, duration_s=5.0)]
    assert len(systems) > len(set(systems))


def test_the_figures_of_the_docstring() -> None:
    arrivals = [a for seed in range(3) for a in conversation(VOCABULARY, seed=seed, duration_s=1200.0)]
    prompts = np.array([a.prompt_tokens for a in arrivals])
    outputs = np.array([a.output_tokens for a in arrivals])
    assert prompts.mean() == pytest.approx(6100, rel=0.06)
    assert np.percentile(prompts, 95) == pytest.approx(12_700, rel=0.08)
    assert np.median(outputs) == pytest.approx(129, rel=0.06)
    assert outputs.mean() == pytest.approx(209, rel=0.06)
    assert prompts.max() <= Shape().prompt_tokens_max
    assert len([a for a in arrivals if a.at_s > 300]) / (3 * 900) == pytest.approx(6.1, rel=0.08)


def test_another_shape() -> None:
    shape = Shape(turns_mean=1.0, system_prompts_tokens=(8,), tenants=1, prompt_tokens_max=9000)
    arrivals = conversation(VOCABULARY, count=40, shape=shape)
    assert len({a.session for a in arrivals}) == 40
    assert {a.tenant for a in arrivals} == {"tenant-0"}
    assert {len(a.prompt.pieces) for a in arrivals} == {2}
