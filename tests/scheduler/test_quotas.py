"""Quotas and reserves as clients and operators meet them: who is refused and how, who finds room, what is kept."""

import pytest

from tests.builders import BLOCK_TOKENS, MODEL, limited, racks, request, tokens
from tests.scheduler.play import Play, idle, only
from vicinal.domain.effects import Answer, Dispatch, Record, RecordObservation
from vicinal.domain.ids import EndpointId, TenantId
from vicinal.domain.outcome import Ending
from vicinal.domain.request import Request
from vicinal.domain.verdict import Rule
from vicinal.flow.quotas.rules import Quota, Rules
from vicinal.flow.tenants import EVERYBODY, Tenant
from vicinal.scheduler.settings import SchedulerSettings

ACME = TenantId("acme")

UNLIMITED = limited(1e9)


def of(name: str, tenant: str, prompt: int = 1024, **changes: object) -> Request:
    return request(name, prompt, tenant=TenantId(tenant), **changes)


def quota(**figures: float) -> list[Tenant]:
    return [Tenant(EVERYBODY, rules=Rules(**figures))]


@pytest.mark.mission("B6")
def test_who_has_had_enough_is_refused_at_once_with_which_quota_and_when_to_return() -> None:
    play = Play(tenants=quota(requests_per_s=0.5, burst_s=4.0), settings=SchedulerSettings(retry_spread_s=0.0))
    for n in range(2):
        play.arrive(of(f"a{n}", "a"))
    effects = play.arrive(of("a2", "a"))
    outcome = only(Answer, effects).outcome
    assert (outcome.ending, outcome.ending.http_status, outcome.detail) == (
        Ending.QUOTA_EXCEEDED,
        429,
        "requests_per_s",
    )
    assert outcome.reason == "quota requests_per_s of tenant a is used up: 2 of 2 within 4 s"
    assert outcome.retry_after_s == 0.0
    assert only(RecordObservation, effects).observation.ending == "quota_exceeded"
    assert len(effects) == 2, "nothing was decided"
    assert any(isinstance(effect, Dispatch) for effect in play.arrive(of("b", "b"))), "another's bucket is its own"
    play.arrive(of("a3", "a"), after_s=0.5)
    play.arrive(of("a4", "a"))
    assert only(Answer, play.arrive(of("a5", "a"))).outcome.retry_after_s == pytest.approx(1.5)


def test_those_who_are_refused_together_are_not_told_the_same_time() -> None:
    play = Play(tenants=quota(concurrency_max=1), settings=SchedulerSettings(retry_after_s=7.0, retry_spread_s=4.0))
    play.arrive(of("a0", "a"))
    told = [only(Answer, play.arrive(of(f"a{n}", "a"))).outcome.retry_after_s for n in range(1, 9)]
    assert len(set(told)) == 8
    assert all(7.0 <= at_s < 11.0 for at_s in told if at_s is not None)
    play.gone("a0")
    assert any(isinstance(effect, Dispatch) for effect in play.arrive(of("again", "a")))


@pytest.mark.mission("B6")
def test_what_a_hand_off_uses_is_charged_and_what_it_did_not_use_is_given_back() -> None:
    rules = {"tokens_per_s": 1e-6, "remote_reads_per_s": 1e-6, "hbm_block_seconds_per_s": 1e-6, "burst_s": 1e12}
    play = Play(tenants=quota(**rules))
    play.arrive(of("q", "a", 1600, output_tokens=320))
    account = play.scheduler.tenancy.quotas.account(TenantId("a"), MODEL)
    assert account is not None
    assert account.left(Quota.TOKENS, play.now) == 1e6 - 1920
    play.prefilled("q", after_s=2.0)
    assert account.left(Quota.REMOTE_READS, play.now) == pytest.approx(1e6 - 1, abs=0.1)
    play.first_token("q", after_s=1.0)
    play.finished("q", after_s=4.0, tokens=80)
    prefill, decode = 1600 // BLOCK_TOKENS, (1600 + 320) // BLOCK_TOKENS
    used = (2.0 + 1.0) * prefill + (1.0 + 4.0) * decode  # both hold theirs while the KV is under way
    assert account.left(Quota.TOKENS, play.now) == pytest.approx(1e6 - 1680)
    assert account.left(Quota.HBM_BLOCK_S, play.now) == pytest.approx(1e6 - used)
    assert account.left(Quota.REMOTE_READS, play.now) == pytest.approx(1e6 - 1, abs=0.1)
    assert idle(play)


def test_blocks_of_an_endpoint_that_left_are_held_no_longer() -> None:
    play = Play(tenants=quota(hbm_block_seconds_per_s=1e-6, burst_s=1e12))
    plan = only(Record, play.arrive(of("q", "a", 1600))).decision.chosen.plan
    play.fleet([endpoint for endpoint in racks() if endpoint.id != plan.prefill], after_s=2.0)
    play.gone("q", after_s=3.0)
    account = play.scheduler.tenancy.quotas.account(TenantId("a"), MODEL)
    assert account is not None
    assert account.left(Quota.HBM_BLOCK_S, play.now) == pytest.approx(1e6 - 2.0 * 100)
    assert idle(play)


def test_what_stays_on_one_endpoint_is_no_remote_read() -> None:
    play = Play(local=True, tenants=quota(remote_reads_per_s=1.0, burst_s=5.0))
    record = only(Record, play.arrive(of("q", "a", 160)))
    assert record.decision.chosen.plan.local
    account = play.scheduler.tenancy.quotas.account(TenantId("a"), MODEL)
    assert account is not None
    assert account.left(Quota.REMOTE_READS, play.now) == 5.0


@pytest.mark.mission("B6")
def test_copies_are_charged_with_what_they_move_and_refused_to_whoever_keeps_too_much() -> None:
    bytes_per_token = racks()[0].kv_bytes_per_token
    copied = Rules(copy_bytes_per_s=1e-6, burst_s=1e18, kept_blocks_max=100)
    play = Play(tenants=[Tenant(ACME, rules=copied)])
    prompt = tokens(1024, 1)
    where, target = EndpointId("r1-p1"), EndpointId("r1-p2")
    play.stored(where, prompt)
    play.arrive(request("copy", prompt, tenant=ACME, copy_to=target))
    account = play.scheduler.tenancy.quotas.account(ACME, MODEL)
    assert account is not None
    play.prefilled("copy", after_s=1.0)
    play.finished("copy", after_s=1.0, tokens=1)
    assert account.left(Quota.COPY_BYTES, play.now) == pytest.approx(1e12 - 1024 * bytes_per_token)
    play.arrive(request("more", 4096, tenant=ACME))
    outcome = only(Answer, play.arrive(request("another", prompt, tenant=ACME, copy_to=target))).outcome
    assert (outcome.ending, outcome.detail) == (Ending.QUOTA_EXCEEDED, "kept_blocks_max")
    assert any(isinstance(effect, Dispatch) for effect in play.arrive(request("still", 64, tenant=ACME)))


@pytest.mark.mission("B6")
def test_others_are_kept_out_of_reserved_endpoints_and_told_so() -> None:
    reserved = tuple(EndpointId(name) for name in ("r1-p1", "r1-p2", "r1-d1", "r1-d2"))
    play = Play(tenants=[Tenant(ACME, reserved_endpoints=reserved)])
    for n in range(8):
        decision = only(Record, play.arrive(of(f"q{n}", "other"))).decision
        assert not {decision.chosen.plan.prefill, decision.chosen.plan.decode} & set(reserved)
    assert {v.endpoint for v in decision.verdicts if v.rule is Rule.RESERVED} == set(reserved)
    used = {only(Record, play.arrive(of(f"a{n}", ACME))).decision.chosen.plan.prefill for n in range(4)}
    assert used & set(reserved)
    nothing_left = Play(racks(1), tenants=[Tenant(ACME, reserved_endpoints=reserved)])
    outcome = only(Answer, nothing_left.arrive(of("q", "other"))).outcome
    assert outcome.ending is Ending.NO_ENDPOINT
    assert "r1-d1 is reserved for other tenants" in outcome.reason
    assert "acme" not in outcome.reason


@pytest.mark.mission("B6", "B4")
def test_whoever_has_a_share_finds_room_while_others_wait_and_keeps_nobody_of_them_from_theirs() -> None:
    """Ten sequences per decode endpoint, four of which are acme's: others hold at six, acme goes past them."""
    fleet = racks(1, 1, 1, sequences_max=10)
    play = Play(
        fleet,
        tenants=[Tenant(ACME, reserved_share=0.4)],
        settings=UNLIMITED,
    )
    placed = [play.arrive(of(f"q{n}", "other", 64)) for n in range(8)]
    assert [bool(effects) for effects in placed] == [True] * 6 + [False] * 2
    own = [play.arrive(of(f"a{n}", ACME, 64)) for n in range(5)]
    assert [bool(effects) for effects in own] == [True] * 4 + [False]
    freed = play.gone("q0")
    assert [effect.decision.tenant_id for effect in freed if isinstance(effect, Record)] == ["other"]
    freed = play.gone("a0")
    assert [effect.decision.tenant_id for effect in freed if isinstance(effect, Record)] == [ACME]
