"""Quotas of several tenants, in any interleaving of their requests, against everything ever charged added up anew."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.builders import BLOCK_TOKENS, MODEL, request
from tests.flow.quotas.naive import Naive
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.request import Request
from vicinal.flow.quotas.account import GAIN, HELD_S
from vicinal.flow.quotas.quotas import Quotas
from vicinal.flow.quotas.rules import RATES, Quota, Rules
from vicinal.flow.tenants import EVERYBODY, Tenant, Tenants

BYTES_PER_TOKEN = 1024
P, D = EndpointId("p"), EndpointId("d")
RULES = {
    "one": Rules(requests_per_s=0.5, concurrency_max=3, burst_s=4.0),
    "two": Rules(tokens_per_s=64.0, remote_reads_per_s=0.25, burst_s=8.0),
    "three": Rules(hbm_block_seconds_per_s=32.0, copy_bytes_per_s=4096.0, gateway_cpu_s_per_s=0.25, burst_s=2.0),
    "four": Rules(concurrency_max=1),
}
TENANTS = Tenants([Tenant(TenantId(name), rules=rules) for name, rules in RULES.items()])


TEMPLATE = request("template", 16)


def sent(name: str, tenant: str, prompt_tokens: int = 64, output_tokens: int = 100, **changes: object) -> Request:
    facts: dict[str, object] = {
        "id": RequestId(name),
        "tenant": TenantId(tenant),
        "prompt_tokens": prompt_tokens,
        "expected_output_tokens": output_tokens,
    }
    return replace(TEMPLATE, **(facts | changes))  # type: ignore[arg-type]


def plan(moved_tokens: int = 64, *, local: bool = False, host_tokens: int = 0, ssd_tokens: int = 0) -> Plan:
    return Plan(P, P if local else D, Action.HIT, 0, 0, moved_tokens, host_tokens, ssd_tokens)


class Twins:
    """The quotas and their naive twin, told the same."""

    def __init__(self) -> None:
        self.quotas = Quotas(TENANTS, BYTES_PER_TOKEN)
        self.naive = Naive(RULES, BYTES_PER_TOKEN)
        self.held_s = dict.fromkeys(RULES, HELD_S)
        self.blocks: dict[str, list[tuple[float, int]]] = {}
        self.pulled: dict[str, int] = {}
        self.sent: set[str] = set()
        self.now = 0.0

    def predicted(self, asked: Request) -> dict[Quota, float]:
        if asked.copy_to is not None:
            return {
                Quota.COPY_BYTES: asked.prompt_tokens * BYTES_PER_TOKEN,
                Quota.GATEWAY_CPU_S: asked.gateway_cpu_s,
            }
        tokens = asked.prompt_tokens + asked.expected_output_tokens
        if self.quotas.account(asked.tenant, MODEL) is None:  # what its requests are like is forgotten with it
            self.held_s[asked.tenant] = HELD_S
        return {
            Quota.REQUESTS: 1,
            Quota.TOKENS: tokens,
            Quota.HBM_BLOCK_S: -(-tokens // BLOCK_TOKENS) * self.held_s[asked.tenant],
            Quota.REMOTE_READS: asked.splittable,
            Quota.GATEWAY_CPU_S: asked.gateway_cpu_s,
        }

    def arrive(self, asked: Request) -> None:
        uses = self.predicted(asked)
        for quota in uses:  # of a figure that is not exact, "nothing left" is a matter of rounding
            left = self.naive.left(asked.tenant, quota, self.now)
            assume(quota is not Quota.HBM_BLOCK_S or left is None or abs(left) > 1e-6)
        against = self.naive.against(asked, uses, self.now)
        waits_s = [self.wait_s(asked.tenant, quota) for quota in against - {Quota.CONCURRENCY}]
        exceeded = self.quotas.arrived(asked, self.now)
        assert (exceeded is None) == (not against)
        if exceeded is None:
            self.naive.enter(asked, uses, self.now)
            self.blocks[asked.id] = []
            self.pulled[asked.id] = 0
            return
        assert exceeded.quota in against
        assert exceeded.figure >= exceeded.limit
        assert exceeded.retry_s == (pytest.approx(max(waits_s)) if waits_s else None)
        self.naive.charges[asked.tenant].append((self.now, {Quota.GATEWAY_CPU_S: asked.gateway_cpu_s}))

    def wait_s(self, tenant: str, quota: Quota) -> float:
        left, per_s = self.naive.left(tenant, quota, self.now), RULES[tenant].per_s(quota)
        assert left is not None
        assert per_s is not None
        return -left / per_s

    def dispatch(self, name: str, leg: Leg, made: Plan) -> None:
        self.quotas.dispatched(RequestId(name), leg, made, self.now)
        asked, before = self.naive.live[name]
        self.sent.add(name)
        if asked.copy_to is not None:
            self.pulled[name] += made.moved_tokens if leg is Leg.DECODE else 0
            pending = 0 if leg is Leg.DECODE else made.moved_tokens
            now = {Quota.COPY_BYTES: (self.pulled[name] + pending) * BYTES_PER_TOKEN}
        else:
            self.pulled[name] += leg is Leg.DECODE and made.moved_tokens > 0
            pending = leg is not Leg.DECODE and not made.local
            now = {Quota.REMOTE_READS: self.pulled[name] + pending}
        self.naive.becomes(name, before | now, self.now)

    def hold(self, name: str, blocks: int) -> None:
        self.quotas.held(RequestId(name), blocks, self.now)
        self.blocks[name].append((self.now, blocks))

    def end(self, name: str, output_tokens: int | None) -> None:
        self.quotas.ended(RequestId(name), output_tokens, self.now)
        asked, before = self.naive.live[name]
        held = self.blocks[name]
        ends = [at_s for at_s, _ in held[1:]] + [self.now]
        block_s = sum(blocks * (end_s - at_s) for (at_s, blocks), end_s in zip(held, ends, strict=False))
        answer = asked.expected_output_tokens if output_tokens is None else output_tokens
        if asked.copy_to is not None:
            after = before | {Quota.COPY_BYTES: self.pulled[name] * BYTES_PER_TOKEN}
        else:
            after = before | {
                Quota.TOKENS: asked.prompt_tokens + answer if name in self.sent else 0,
                Quota.HBM_BLOCK_S: block_s,
                Quota.REMOTE_READS: self.pulled[name],
            }
            if name in self.sent:
                blocks = -(-(asked.prompt_tokens + asked.expected_output_tokens) // BLOCK_TOKENS)
                self.held_s[asked.tenant] += GAIN * (block_s / blocks - self.held_s[asked.tenant])
        self.naive.becomes(name, after, self.now)
        del self.naive.live[name]


WHAT = st.sampled_from(["arrive"] * 3 + ["dispatch", "hold", "end"])
STEP = st.tuples(st.integers(0, 24), WHAT, st.integers(0, 2**31))


@pytest.mark.mission("B6")
@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=60))
def test_any_interleaving_is_charged_as_everything_added_up_anew(steps: list[tuple[int, str, int]]) -> None:
    twins = Twins()
    for number, (eighths, what, choice) in enumerate(steps):
        twins.now += eighths / 8
        live = sorted(twins.naive.live)
        if what == "arrive":
            copies = choice % 7 == 0
            twins.arrive(
                sent(
                    f"q{number}",
                    list(RULES)[choice % 4],
                    (choice // 4 % 20) * 16,
                    output_tokens=1 + choice // 80 % 200,
                    splittable=choice % 3 > 0,
                    copy_to=D if copies else None,
                    gateway_cpu_s=(choice // 16 % 8) / 16,
                )
            )
        elif live:
            name = live[choice % len(live)]
            if what == "dispatch":
                leg = list(Leg)[choice // 100 % 3]
                twins.dispatch(name, leg, plan((choice // 300 % 5) * 16, local=leg is Leg.WHOLE))
            elif what == "hold":
                twins.hold(name, choice // 100 % 50)
            else:
                twins.end(name, None if choice % 5 == 0 else choice // 100 % 300)
    for tenant, rules in RULES.items():
        under_way = sum(asked.tenant == tenant for asked, _ in twins.naive.live.values())
        assert rules.concurrency_max is None or under_way <= rules.concurrency_max
        account = twins.quotas.account(TenantId(tenant), MODEL)
        if account is not None:
            assert account.concurrency.count == under_way
            for quota in RATES:
                assert account.left(quota, twins.now) == pytest.approx(twins.naive.left(tenant, quota, twins.now))
        else:  # never seen, or forgotten
            assert not under_way
            for quota in RATES:
                left = twins.naive.left(tenant, quota, twins.now)
                per_s = rules.per_s(quota)
                assert left is None or left == pytest.approx((per_s or 0) * rules.burst_s)


def admitted(quotas: Quotas, asked: Request, now: float) -> bool:
    return quotas.arrived(asked, now) is None


@pytest.mark.mission("B6")
@given(st.lists(st.tuples(st.integers(0, 16), st.integers(1, 40), st.integers(0, 2**31)), max_size=60))
def test_no_window_has_more_than_one_request_too_many(steps: list[tuple[int, int, int]]) -> None:
    """Requests end whenever they like; none uses more than was expected of it."""
    rules = Rules(tokens_per_s=64.0, requests_per_s=0.5, burst_s=4.0, concurrency_max=5)
    quotas = Quotas(Tenants([Tenant(TenantId("a"), rules=rules)]), BYTES_PER_TOKEN)
    now, live, taken = 0.0, {}, []
    for number, (eighths, blocks, choice) in enumerate(steps):
        now += eighths / 8
        if choice % 3 == 0 and live:
            name = sorted(live)[choice % len(live)]
            quotas.dispatched(RequestId(name), Leg.WHOLE, plan(local=True), now)
            quotas.ended(RequestId(name), live.pop(name), now)
            continue
        asked = sent(f"q{number}", "a", blocks * 16, output_tokens=16)
        if admitted(quotas, asked, now):
            live[asked.id] = 16
            taken.append((now, asked.prompt_tokens + 16))
        assert len(live) <= 5
    for first, (begin_s, _) in enumerate(taken):
        tokens = 0
        for count, (end_s, more) in enumerate(taken[first:]):
            assert tokens < 64.0 * (4.0 + end_s - begin_s)
            assert count < 0.5 * (4.0 + end_s - begin_s)
            tokens += more


def test_each_tenant_of_everybody_has_buckets_of_its_own_and_a_named_one_has_its_own_rules() -> None:
    everybody = Tenant(EVERYBODY, rules=Rules(requests_per_s=0.1, burst_s=10.0))
    named = Tenant(TenantId("known"))
    quotas = Quotas(Tenants([everybody, named]), BYTES_PER_TOKEN)
    assert [admitted(quotas, sent(f"a{n}", "a"), 0.0) for n in range(3)] == [True, False, False]
    assert [admitted(quotas, sent(f"b{n}", "b"), 0.0) for n in range(3)] == [True, False, False]
    assert all(admitted(quotas, sent(f"c{n}", "known"), 0.0) for n in range(100))
    assert len(quotas) == 2


def test_what_is_said_of_a_model_counts_for_that_model_alone() -> None:
    name, other = TenantId("a"), ModelId("other")
    both = Tenant(name, rules=Rules(requests_per_s=1.0, burst_s=1.0))
    one = Tenant(name, MODEL, rules=Rules(requests_per_s=3.0, burst_s=1.0))
    quotas = Quotas(Tenants([both, one]), BYTES_PER_TOKEN)
    assert sum(admitted(quotas, sent(f"q{n}", "a"), 0.0) for n in range(9)) == 3
    assert sum(admitted(quotas, sent(f"o{n}", "a", model=other), 0.0) for n in range(9)) == 1


def test_a_request_that_no_engine_had_gives_its_tokens_back_and_stays_a_request() -> None:
    rules = Rules(tokens_per_s=10.0, requests_per_s=10.0, burst_s=10.0)
    quotas = Quotas(Tenants([Tenant(TenantId("a"), rules=rules)]), BYTES_PER_TOKEN)
    assert admitted(quotas, sent("q", "a", 1000), 0.0)
    account = quotas.account(TenantId("a"), MODEL)
    assert account is not None
    assert account.left(Quota.TOKENS, 0.0) == -1000.0
    quotas.ended(RequestId("q"), None, 0.0)
    quotas.ended(RequestId("q"), None, 0.0)
    assert account.left(Quota.TOKENS, 0.0) == 100.0
    assert account.left(Quota.REQUESTS, 0.0) == 99.0


def test_blocks_below_hbm_count_from_the_leg_until_they_are_loaded() -> None:
    rules = Rules(host_block_seconds_per_s=1.0, ssd_block_seconds_per_s=1.0, burst_s=100.0)
    quotas = Quotas(Tenants([Tenant(TenantId("a"), rules=rules)]), BYTES_PER_TOKEN)
    assert admitted(quotas, sent("q", "a"), 0.0)
    account = quotas.account(TenantId("a"), MODEL)
    assert account is not None
    below = plan(local=True, host_tokens=3 * BLOCK_TOKENS, ssd_tokens=5 * BLOCK_TOKENS)
    quotas.dispatched(RequestId("q"), Leg.WHOLE, below, 0.0)
    quotas.loaded(RequestId("q"), 2.0)
    quotas.ended(RequestId("q"), 1, 2.0)
    assert account.left(Quota.HOST_BLOCK_S, 2.0) == 100.0 - 6.0
    assert account.left(Quota.SSD_BLOCK_S, 2.0) == 100.0 - 10.0


def test_the_gateways_time_is_spent_whether_a_request_goes_on_or_not() -> None:
    rules = Rules(gateway_cpu_s_per_s=0.5, burst_s=2.0)
    quotas = Quotas(Tenants([Tenant(TenantId("a"), rules=rules)]), BYTES_PER_TOKEN)
    assert [admitted(quotas, sent(f"q{n}", "a", gateway_cpu_s=1.0), 0.0) for n in range(3)] == [True, False, False]
    exceeded = quotas.arrived(sent("last", "a", gateway_cpu_s=1.0), 0.0)
    assert exceeded is not None
    assert exceeded.quota is Quota.GATEWAY_CPU_S
    assert (exceeded.figure, exceeded.limit, exceeded.retry_s) == (3.0, 1.0, 4.0)
    assert exceeded.words == "quota gateway_cpu_s_per_s of tenant a is used up: 3 of 1 within 2 s"


@settings(deadline=None)
@given(st.lists(st.integers(0, 20), min_size=50, max_size=120))
def test_idle_tenants_are_forgotten(waits: list[int]) -> None:
    """Each tenant sends one request, which is over at once: remembered are those whose buckets are filling."""
    rules = Rules(requests_per_s=1.0, burst_s=4.0)
    quotas = Quotas(Tenants([Tenant(EVERYBODY, rules=rules)]), BYTES_PER_TOKEN)
    now, came = 0.0, []
    for number, eighths in enumerate(waits):
        now += eighths / 8
        assert admitted(quotas, sent(f"q{number}", f"tenant-{number}"), now)
        quotas.ended(RequestId(f"q{number}"), 1, now)
        came.append(now)
        filling = sum(at_s > now - 1.0 for at_s in came)
        most = max(sum(end_s - 1.0 < at_s <= end_s for at_s in came) for end_s in came)
        assert filling <= len(quotas) <= 2 * most + 2
