"""The same events and the same stream of chance give the same effects; two schedulers share nothing."""

from collections.abc import Iterator
from itertools import chain

import pytest

from tests.builders import racks, request, tokens
from tests.scheduler.play import Play, every
from vicinal.domain.effects import Dispatch, Effect
from vicinal.domain.plan import Leg
from vicinal.policies.registry import POLICIES

PROMPT = tokens(8_192, 4)


def story(play: Play, requests: int = 24) -> Iterator[list[Effect]]:
    """A few requests with shared prefixes, some hand-offs, failures, reports, and the end of all; step by step."""
    for n in range(requests):
        yield play.arrive(request(f"q{n}", PROMPT[: 512 * (1 + n % 16)]), 0.05)
        if n % 5 == 4:
            yield play.failed(f"q{n}", play.scheduler.requests[f"q{n}"].leg or Leg.WHOLE)
        elif n % 3 == 2:
            yield play.prefilled(f"q{n}", 0.1)
        if n % 7 == 6:
            yield play.reported("r1-d1", 0.1, running=n, kv_usage=0.2)
    for name in sorted(play.scheduler.requests):
        yield play.gone(name)


@pytest.mark.parametrize("policy_name", sorted(POLICIES))
def test_the_same_events_give_the_same_effects(policy_name: str) -> None:
    once, again = (list(story(Play(local=True, policy_name=policy_name, seed=7))) for _ in range(2))
    assert once == again
    assert len(every(Dispatch, chain.from_iterable(once))) > 24


def test_chance_is_the_streams() -> None:
    """On an idle fleet of equals the seed decides; otherwise nothing would spread."""
    firsts = {every(Dispatch, Play(seed=seed).arrive(request("a")))[0].endpoint for seed in range(30)}
    assert firsts == {"r1-p1", "r1-p2", "r2-p1", "r2-p2"}


def test_two_schedulers_side_by_side_do_not_meet() -> None:
    alone = list(story(Play(local=True, seed=1)))
    other = story(Play(racks(3, 4, 4), local=True, policy_name="round_robin", seed=2))
    mixed = []
    for step in story(Play(local=True, seed=1)):
        mixed.append(step)
        next(other, None)
    assert mixed == alone
