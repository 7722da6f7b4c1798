"""What a decision says, and that each input which a filter reads changes who is chosen (MISSION B3, C3)."""

import pytest

from tests.builders import MODEL, endpoint, racks, request, tokens
from tests.scheduler.play import Play, only
from vicinal.domain.decision import TERMS, Decision
from vicinal.domain.effects import Record
from vicinal.domain.endpoint import Role
from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import BATCH
from vicinal.domain.verdict import Rule


def decide(play: Play, name: str = "a", **how: object) -> Decision:
    prompt = how.pop("prompt", 4096)
    return only(Record, play.arrive(request(name, prompt, **how))).decision  # type: ignore[arg-type]


def value(decision: Decision, name: str, term: str) -> float | None:
    return dict(decision.counterfactuals)[name].terms[TERMS.index(term)]


@pytest.mark.mission("B3")
@pytest.mark.parametrize(
    ("rule", "figures"),
    [
        (Rule.HEADROOM, {"kv_usage": 1.0}),
        (Rule.SEQUENCES, {"running": 300}),
    ],
)
def test_memory_and_batch_leave_an_endpoint_out(rule: Rule, figures: dict[str, float]) -> None:
    fleet = racks(1, 1, 2)
    for loaded, other in (("r1-d1", "r1-d2"), ("r1-d2", "r1-d1")):
        play = Play(fleet)
        for _ in range(2):
            play.reported(loaded, **figures)
        decision = decide(play)
        assert decision.chosen.plan.decode == other
        assert [(v.endpoint, v.rule) for v in decision.verdicts] == [(loaded, rule)]


@pytest.mark.mission("B3")
def test_queue_length_and_batch_size_send_work_elsewhere() -> None:
    fleet = racks(1, 2, 2)
    for busy_p, busy_d in (("r1-p1", "r1-d1"), ("r1-p2", "r1-d2")):
        play = Play(fleet)
        play.run(request("past"))  # so that a stranger's prefill has a length to be guessed from
        for _ in range(2):
            play.reported(busy_p, waiting=8)
            play.reported(busy_d, running=40)
        plan = decide(play).chosen.plan
        assert plan.prefill != busy_p
        assert plan.decode != busy_d


@pytest.mark.mission("B3")
def test_model_placement_and_role() -> None:
    fleet = [
        endpoint("p", Role.PREFILL),
        endpoint("p-other", Role.PREFILL, model=ModelId("other")),
        endpoint("d", Role.DECODE),
        endpoint("d-other", Role.DECODE, model=ModelId("other")),
    ]
    play = Play(fleet)
    for model, names in ((MODEL, ("p", "d")), (ModelId("other"), ("p-other", "d-other"))):
        decision = decide(play, name=model, model=model)
        assert (decision.chosen.plan.prefill, decision.chosen.plan.decode) == names
        assert {v.rule for v in decision.verdicts} == {Rule.MODEL}


def test_the_record_carries_the_request_as_it_came() -> None:
    decision = decide(
        Play(), tenant=TenantId("t1"), priority=3, service=BATCH, output_tokens=77, prompt=tokens(1_100, 2)
    )
    said = (decision.tenant_id, decision.priority, decision.service, decision.expected_output_tokens)
    assert said == ("t1", 3, "batch", 77)
    assert (decision.model_id, decision.prompt_tokens, decision.block_tokens) == (MODEL, 1_100, 16)
    assert len(decision.coarse_hashes) == 2, "one per 512 tokens"
    assert decision.policy == "cost"


@pytest.mark.mission("C3")
@pytest.mark.parametrize("policy_name", ["cost", "least_loaded", "round_robin"])
def test_the_losers_and_the_named_alternatives_are_priced_like_the_winner(policy_name: str) -> None:
    play = Play(local=True, policy_name=policy_name)
    play.stored("r2-p1", tokens(4096, 9)[:2048])
    decision = decide(play, prompt=tokens(4096, 9))
    names = [name for name, _ in decision.counterfactuals]
    assert names == ["emptiest_gpu", "nearest", "best_cached", "best_hit", "best_recompute", "local"]
    assert len(decision.others) == 8
    assert decision.pairs_considered == 4 * 4 + 4
    totals = [row.total for row in decision.others]
    assert totals == sorted(totals)
    best = min(decision.chosen.total, totals[0])
    for _, row in decision.counterfactuals:
        assert row.total >= best
    if policy_name == "cost":
        assert decision.chosen.total <= totals[0]


@pytest.mark.mission("C3")
def test_each_counterfactual_is_what_it_is_called() -> None:
    play = Play(local=True)
    prompt = tokens(4096, 9)
    play.stored("r2-p1", prompt[:2048])
    play.arrive(request("load", 8_192, splittable=False))
    decision = decide(play, prompt=prompt)
    rows = dict(decision.counterfactuals)
    assert rows["best_cached"].plan.prefill == "r2-p1"
    assert rows["best_cached"].plan.cached_tokens == 2048
    assert rows["best_hit"].plan.cached_tokens > 0
    assert rows["best_recompute"].plan.cached_tokens == 0
    assert rows["local"].plan.local
    chosen = decision.chosen.plan
    assert rows["nearest"].plan.decode == chosen.decode
    assert rows["nearest"].plan.prefill[:2] == chosen.decode[:2]
    loaded = play.scheduler.requests["load"].plan
    assert loaded is not None
    assert rows["emptiest_gpu"].plan.decode != loaded.decode
    assert value(decision, "best_recompute", "compute_prefill") > value(decision, "best_hit", "compute_prefill")
    assert value(decision, "local", "transfer_kv") is None, "what does not apply is absent, not zero"


@pytest.mark.mission("B12")
def test_the_age_of_every_input_is_said() -> None:
    play = Play(racks(1, 1, 1, events_url="tcp://somewhere:1"))
    play.reported("r1-p1", 2.0)
    play.stored("r1-d1", tokens(64, 1), 1.0)
    play.now += 0.5
    ages = {age.name: age.age_s for age in decide(play).inputs}
    assert ages == {
        "ledger": 0.0,
        "prefill_report": 1.5,
        "decode_report": 3.5,
        "prefill_blocks": None,
        "decode_blocks": 0.5,
        "prompt": 0.0,
    }


@pytest.mark.mission("B12", "C2")
def test_what_an_endpoint_without_events_holds_is_said_to_be_inferred() -> None:
    play = Play(racks(1, 1, 1))
    play.stored("r1-d1", tokens(64, 1), 1.0)
    sources = {age.name: age.source for age in decide(play).inputs}
    assert sources["prefill_blocks"] == "own dispatches"
    assert sources["decode_blocks"] == "engine events"
    assert sources["prompt"] == "tokens"


@pytest.mark.mission("C2")
def test_a_prompt_matched_by_its_text_says_so() -> None:
    play = Play(racks(1, 1, 1, events_url="tcp://somewhere:1"))
    play.arrive(request("first", 4096, inferred_only=True, exact=False))
    again = request("second", 4096, inferred_only=True, exact=False, block_hashes=request("first", 4096).block_hashes)
    decision = only(Record, play.arrive(again)).decision
    sources = {age.name: age.source for age in decision.inputs}
    assert (sources["prefill_blocks"], sources["prompt"]) == ("text of own dispatches", "estimate")
    assert decision.chosen.plan.cached_tokens == 4080


def test_the_decode_decision_repeats_no_workload() -> None:
    play = Play(racks(1, 1, 1))
    assert len(decide(play).coarse_hashes) == 8
    second = only(Record, play.prefilled("a", 0.5)).decision
    assert second.coarse_hashes == ()
    assert second.attempt == 1
