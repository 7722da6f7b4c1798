"""Tenants share turns: the bound of the virtual token counter, weights, idleness that saves nothing up, locality."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.flow.waiting import MODEL, flow, waiting
from vicinal.domain.ids import TenantId
from vicinal.flow.closed import Closed
from vicinal.flow.fairness.counters import IDLE_MAX, Counters
from vicinal.flow.fairness.vtc import NEAR_MAX, VirtualTokens
from vicinal.flow.made import FairnessName
from vicinal.flow.tenants import Tenant, Tenants

LENGTHS = st.lists(st.tuples(st.integers(1, 4000), st.integers(1, 500)), min_size=40, max_size=40)


def service(prompt_tokens: int, output_tokens: int) -> float:
    return prompt_tokens + 2.0 * output_tokens


@pytest.mark.mission("B6", "C7")
@given(of_a=LENGTHS, of_b=LENGTHS, weight=st.sampled_from([1.0, 3.0]))
@settings(max_examples=50, deadline=None)
def test_backlogged_tenants_stay_within_the_bound(
    of_a: list[tuple[int, int]], of_b: list[tuple[int, int]], weight: float
) -> None:
    """Sheng et al., theorem 4.4, for a queue that admits one at a time: while both wait, what they had over their
    weights differs by no more than the largest request of each."""
    queue = flow(tenants=Tenants([Tenant(TenantId("a"), weight=weight)]))
    weights = {"a": weight, "b": 1.0}
    for tenant, lengths in (("a", of_a), ("b", of_b)):
        for n, (prompt, output) in enumerate(lengths):
            queue.add(waiting(f"{tenant}{n}", tenant, prompt_tokens=prompt, expected_output_tokens=output))
    bound = sum(max(service(*lengths) for lengths in of) / weights[tenant] for tenant, of in (("a", of_a), ("b", of_b)))
    had = {"a": 0.0, "b": 0.0}
    left = {"a": len(of_a), "b": len(of_b)}
    while all(left.values()):
        turn = queue.next(MODEL, Closed(), 0.0, 0.0)
        assert turn is not None
        request = turn.waiting.request
        queue.remove(request.id)
        queue.sent(request, 0, 1.0, aged=False)
        had[request.tenant] += service(request.prompt_tokens, request.expected_output_tokens) / weights[request.tenant]
        left[request.tenant] -= 1
        assert abs(had["a"] - had["b"]) <= bound


def test_a_tenant_that_was_idle_has_saved_nothing_up() -> None:
    counters = Counters(lambda _: 1.0)
    counters.joined(TenantId("busy"), [])
    counters.add(TenantId("busy"), 1_000.0)
    counters.joined(TenantId("new"), [TenantId("busy")])
    assert counters.of(TenantId("new")) == 1_000.0
    counters.left(TenantId("busy"))
    counters.left(TenantId("new"))
    counters.joined(TenantId("third"), [])
    assert counters.of(TenantId("third")) == 1_000.0, "nobody waits: it begins where the last one ended"


def test_counters_of_the_idle_are_bounded() -> None:
    counters = Counters(lambda _: 1.0)
    counters.joined(TenantId("stays"), [])
    for n in range(5 * IDLE_MAX):
        counters.add(TenantId(f"t{n}"), float(n))
    assert len(counters._had) <= 2 * IDLE_MAX + 2
    assert counters.of(TenantId("stays")) == 0.0
    assert counters.of(TenantId(f"t{5 * IDLE_MAX - 1}")) > 0.0, "those that had most are remembered"


def test_a_wrong_prediction_is_put_right() -> None:
    queue = flow()
    one = waiting("a0", "a", prompt_tokens=100, expected_output_tokens=50)
    queue.sent(one.request, 0, 1.0, aged=False)
    queue.answered(one.request, 80)
    assert queue.band(one.request).fairness.service(TenantId("a")) == 100 + 2 * 80


@pytest.mark.mission("C7")
def test_whose_prefix_is_there_goes_first_within_the_deficit() -> None:
    reuse = {"a": 900, "b": 0}
    rule = VirtualTokens(
        lambda _: 1.0,
        cached_weight=0.0,
        deficit_tokens=2_000.0,
        reusable_tokens=lambda request: reuse[request.tenant],
    )
    heads = [waiting("a0", "a", expected_output_tokens=50), waiting("b0", "b", expected_output_tokens=50)]
    for head in heads:
        rule.joined(head.request.tenant, [])
    turns = []
    for _ in range(40):
        chosen = rule.pick(heads)
        turns.append(chosen.request.tenant)
        rule.charge(chosen.request, reuse[chosen.request.tenant])
    assert turns[:10] == ["a"] * 10, "each costs 200, and 2,000 ahead is allowed"
    assert "b" in turns[10:12]
    ahead = rule._counters.of(TenantId("a")) - rule._counters.of(TenantId("b"))
    assert abs(ahead) <= 2_000.0 + 1_100.0


def test_without_a_deficit_locality_is_plain_fairness_in_computed_tokens() -> None:
    rule = VirtualTokens(lambda _: 1.0, cached_weight=0.0)
    heads = [waiting("a0", "a"), waiting("b0", "b")]
    rule.charge(heads[0].request, 0)
    assert rule.pick(heads).request.tenant == "b"


def test_no_fairness_counts_nothing() -> None:
    queue = flow(fairness=FairnessName.NONE)
    one = waiting("a0")
    queue.sent(one.request, 0, 1.0, aged=False)
    assert queue.band(one.request).fairness.service(TenantId("a")) is None


def test_few_prompts_are_looked_up_however_many_tenants_wait() -> None:
    asked: list[str] = []
    rule = VirtualTokens(
        lambda _: 1.0,
        cached_weight=0.0,
        deficit_tokens=1e9,
        reusable_tokens=lambda request: asked.append(request.tenant) or 0,  # type: ignore[func-returns-value]
    )
    heads = [waiting(f"r{n}", f"t{n}", since_s=float(n)) for n in range(500)]
    assert rule.pick(heads) is heads[0]
    assert len(asked) == NEAR_MAX
