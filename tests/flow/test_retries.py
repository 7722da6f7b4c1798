"""The budget of our own retries: a share of what a tenant asks for, a little for who asks seldom, and never more."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.ids import TenantId
from vicinal.flow import retries
from vicinal.flow.retries import RetryBudget, RetryRule

T = TenantId("t")
RULE = RetryRule(share=0.1, least=3.0, most=20.0, window_s=60.0)


@pytest.mark.mission("B7")
def test_a_lone_request_can_be_tried_again_but_not_for_ever() -> None:
    budget = RetryBudget(RULE)
    budget.asked(T, 0.0)
    assert [budget.take(T, 0.0) for _ in range(5)] == [True, True, True, False, False]


@pytest.mark.mission("B7")
def test_when_everything_fails_a_tenth_is_tried_again() -> None:
    """100 requests a second for a minute, each of which fails and would be tried twice more."""
    budget, had = RetryBudget(RULE), 0
    for n in range(6000):
        budget.asked(T, n / 100)
        had += sum(budget.take(T, n / 100) for _ in range(2))
    assert 600 <= had <= 600 + RULE.most + RULE.least


def test_what_was_saved_is_forgotten_with_time_and_what_was_spent_comes_back() -> None:
    budget = RetryBudget(RULE)
    for _ in range(1000):
        budget.asked(T, 0.0)
    assert budget.left(T, 0.0) == RULE.most
    assert budget.left(T, 60.0) == pytest.approx(3.0 + 17.0 / 2.71828, rel=1e-3)
    assert budget.left(T, 1e9) == 3.0
    while budget.take(T, 0.0):
        pass
    assert budget.left(T, 0.0) < 1.0
    assert budget.left(T, 600.0) == pytest.approx(3.0, rel=1e-3)


def test_tenants_do_not_share_and_a_stranger_has_the_least() -> None:
    budget = RetryBudget(RULE)
    while budget.take(T, 0.0):
        pass
    other = TenantId("other")
    assert budget.left(other, 0.0) == 3.0
    assert budget.take(other, 0.0)


def test_memory_is_bounded_whatever_clients_call_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "TENANTS_MAX", 4)
    budget = RetryBudget(RULE)
    for n in range(10):
        budget.asked(TenantId(str(n)), float(n))
        budget.take(TenantId("0"), float(n))
    assert len(budget) == 4
    assert budget.left(TenantId("0"), 9.0) < 2.0, "who is heard of is not forgotten"


calls = st.lists(st.tuples(st.sampled_from(["asked", "take"]), st.floats(0.0, 30.0)), max_size=200)


@pytest.mark.mission("B7")
@given(calls=calls)
def test_no_order_of_events_gives_more_than_the_bound(calls: list[tuple[str, float]]) -> None:
    """Over every stretch of time that begins with the first event, or at any later one."""
    budget, now, log = RetryBudget(RULE), 0.0, []
    for call, after_s in calls:
        now += after_s
        if call == "asked":
            budget.asked(T, now)
            log.append((now, 1, 0))
        else:
            log.append((now, 0, int(budget.take(T, now))))
        assert 0.0 <= budget.left(T, now) <= RULE.most
    for begin in range(0, len(log), 7):
        asked = had = 0
        for at_s, one_asked, one_had in log[begin:]:
            asked, had = asked + one_asked, had + one_had
            elapsed_s = at_s - log[begin][0]
            assert had <= RULE.most + RULE.share * asked + RULE.least * elapsed_s / RULE.window_s + 1e-6
