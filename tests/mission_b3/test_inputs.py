"""MISSION B3, input by input: change one thing, and a term, a filter or the choice of the decision changes.

Two racks of one prefill and one decode endpoint each: every row of the table is in the record, so that two records can
be compared whole. What no decision reads yet is listed here too, by name, and the list fails when it becomes untrue.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace

import pytest

from tests.builders import BLOCK_TOKENS, MODEL, endpoint, racks, report, request, scheduler, tokens
from vicinal.cluster.ledger import DecodeWork, PrefillWork
from vicinal.domain.decision import TERMS, Decision
from vicinal.domain.effects import Answer, Record
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.events import (
    BlocksStored,
    EndpointReported,
    EndpointUnreachable,
    FirstToken,
    PrefillDone,
    RequestArrived,
    RequestFinished,
)
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.plan import Action
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import BATCH, Request, ServiceClass
from vicinal.domain.verdict import Rule
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.topology.graph import Level
from vicinal.topology.tree import TreeNetwork

pytestmark = pytest.mark.mission("B3")

FLEET = tuple(racks(2, 1, 1))
NETWORK = TreeNetwork(leaf_oversubscription=8.0)
NOW = 10.0
PROMPT = tokens(4096, seed=7)
ASKED = request("asked", PROMPT, output_tokens=100)
OTHER = RequestId("other")
P1, D1 = EndpointId("r1-p1"), EndpointId("r1-d1")


@dataclass(frozen=True)
class Case:
    """What is different from the plain situation, and the least that must differ in the decision for it.

    `avoided` is the endpoint that it makes the worse choice, if any.
    """

    input: str
    differs: set[str]
    change: Callable[[Scheduler], object] = lambda made: None
    fleet: Sequence[Endpoint] = FLEET
    network: TreeNetwork = NETWORK
    asked: Request = ASKED
    beside: Sequence[Endpoint] = FLEET
    """The fleet that it is compared with."""
    avoided: EndpointId | None = None


def decided(
    fleet: Sequence[Endpoint],
    network: TreeNetwork,
    change: Callable[[Scheduler], object],
    asked: Request,
    seed: int = 0,
    local_prefill: bool = True,
) -> Decision:
    """The decision on `asked` by a scheduler that has served one request before, after `change`."""
    settings = SchedulerSettings(local_prefill=local_prefill)
    made = scheduler(fleet, network=network, settings=settings, seed=seed)
    first = request("first", 2048)
    made.handle(RequestArrived(first), 0.0)
    made.handle(PrefillDone(first.id, 1, None), 0.1)
    made.handle(FirstToken(first.id, 1), 0.2)
    made.handle(RequestFinished(first.id, 1, 100), 1.0)
    change(made)
    (record,) = [effect for effect in made.handle(RequestArrived(asked), NOW) if isinstance(effect, Record)]
    return record.decision


def differences(before: Decision, after: Decision) -> set[str]:
    """Names of the terms in which a row differs, the rules that left more or other endpoints out, "choice", "rows"."""
    found = set()
    if chosen(before) != chosen(after):
        found.add("choice")
    if rows_of(before).keys() != rows_of(after).keys():
        found.add("rows")
    found |= {
        str(verdict.rule)
        for verdict in {(v.endpoint, v.rule): v for v in (*before.verdicts, *after.verdicts)}.values()
        if (verdict in before.verdicts) != (verdict in after.verdicts)
    }
    rows, others = rows_of(before), rows_of(after)
    for pair in rows.keys() & others.keys():
        found |= {name for name, a, b in zip(TERMS, rows[pair], others[pair], strict=True) if a != b}
    return found


def chosen(decision: Decision) -> tuple[EndpointId, EndpointId]:
    return decision.chosen.plan.prefill, decision.chosen.plan.decode


def rows_of(decision: Decision) -> dict[tuple[EndpointId, EndpointId], tuple[float | None, ...]]:
    return {(row.plan.prefill, row.plan.decode): row.terms for row in (decision.chosen, *decision.others)}


def changed(name: str, **facts: object) -> tuple[Endpoint, ...]:
    """The fleet with some facts of one endpoint changed."""
    return tuple(replace(e, **facts) if e.id == name else e for e in FLEET)  # type: ignore[arg-type]


def reports(name: EndpointId, **figures: float) -> Callable[[Scheduler], object]:
    """Two reports in a row, because a stranger must be seen twice."""

    def change(made: Scheduler) -> None:
        for at_s in (NOW - 2, NOW - 1):
            made.handle(EndpointReported(report(name, at_s, **figures)), at_s)

    return change


def stored(name: EndpointId) -> Callable[[Scheduler], object]:
    """The first half of the prompt is on this endpoint, as its engine's events say."""
    half = PROMPT[: len(PROMPT) // 2]
    hashes = tuple(range(1, len(half) // BLOCK_TOKENS + 1))
    event = BlocksStored(name, 1, 0, None, hashes, half.tobytes(), BLOCK_TOKENS)
    return lambda made: made.handle(event, NOW - 1)


def same_host(name: str, role: Role) -> Endpoint:
    return endpoint(name, role, placement=Placement("one", "r1", "pod", "site"))


HOST = (same_host("p", Role.PREFILL), same_host("d", Role.DECODE))
ENDPOINT_CASES = [
    Case("GPU queue: strangers", {"wait_prefill", "ttft"}, reports(P1, waiting=6, running=2), avoided=P1),
    Case(
        "queue length: own requests",
        {"wait_prefill", "ttft"},
        lambda made: made.state.ledger.open_prefill(OTHER, PrefillWork(0, 5.0, 9999), NOW),
        avoided=P1,
    ),
    Case("batch size: strangers", {"tpot", "first_step", "decode_price"}, reports(D1, running=40), avoided=D1),
    Case(
        "batch size: own requests",
        {"tpot", "tpot_cost", "decode_price"},
        lambda made: made.state.ledger.open_decode(OTHER, DecodeWork(1, 50_000.0, 60_000)),
        avoided=D1,
    ),
    Case("HBM free: strangers", {Rule.HEADROOM}, reports(D1, kv_usage=0.999), avoided=D1),
    Case(
        "HBM free: own requests",
        {Rule.HEADROOM},
        lambda made: made.state.ledger.hold_blocks(OTHER, 1, 74_000),
        avoided=D1,
    ),
    Case("HBM size", {Rule.TOO_LONG}, fleet=changed("r1-d1", kv_blocks=200), avoided=D1),
    Case(
        "network: flows",
        {"transfer_kv", "link_price"},
        lambda made: made.state.start_transfer(OTHER, 0, 1, 1e9),
        avoided=P1,
    ),
    Case("network: interface", {"transfer_kv", "ttft"}, fleet=changed("r1-d1", nic_bytes_per_s=1e9), avoided=D1),
    Case("network: uplink", {"transfer_kv"}, network=replace(NETWORK, leaf_oversubscription=80.0)),
    Case("network: latency", {"transfer_kv"}, network=replace(NETWORK, leaf_latency_s=0.5)),
    Case(
        "network: what transfers really took",
        {"transfer_kv"},
        lambda made: made.cost.speeds.observe(Level.LEAF, 0.1, 5.0, NOW),
    ),
    Case(
        "network: where endpoints stand",
        {"transfer_kv"},
        fleet=changed("r1-d1", placement=Placement("h", "r2", "pod", "site")),
    ),
    Case("PCIe/NVLink", {"transfer_kv"}, fleet=HOST, beside=HOST, network=replace(NETWORK, host_bytes_per_s=20e9)),
    Case("model placement", {Rule.MODEL}, fleet=changed("r1-p1", model=ModelId("another")), avoided=P1),
    Case("KV location: prefill", {"compute_prefill", "choice"}, stored(EndpointId("r2-p1")), avoided=P1),
    Case("KV location: decode", {"transfer_kv", "compute_prefill"}, stored(D1)),
    Case(
        "BlockGroup state: filling",
        {"compute_prefill"},
        lambda made: made.state.index.expect(0, ASKED.block_hashes),
    ),
    Case(
        "health: it does not answer",
        {Rule.UNREACHABLE},
        lambda made: made.handle(EndpointUnreachable(P1, "timeout"), NOW - 1),
        avoided=P1,
    ),
    Case("load limit", {Rule.SEQUENCES}, reports(D1, running=9), fleet=changed("r1-d1", sequences_max=8)),
    Case(
        "GPU and engine", {"compute_prefill"}, fleet=changed("r1-p1", profile="llama-3.1-70b-a100-tp8-vllm"), avoided=P1
    ),
    Case("role", {"rows"}, fleet=changed("r1-p1", role=Role.DECODE)),
    Case("KV size", {"transfer_kv"}, fleet=changed("r1-d1", kv_bytes_per_token=655_360), avoided=D1),
    Case(
        "block size",
        {Rule.TOO_LONG},
        fleet=changed("r1-d1", kv_blocks=300, block_tokens=8),
        beside=changed("r1-d1", kv_blocks=300),
    ),
    Case("longest context", {Rule.TOO_LONG}, fleet=changed("r1-p1", model_tokens_max=4000), avoided=P1),
    Case(
        "price of prefill",
        {"prefill_price"},
        lambda made: made.cost.price.observe(10.0, 1.0, NOW),
    ),
]
REQUEST_CASES = [
    Case("input length", {"compute_prefill", "transfer_kv"}, asked=request("asked", tokens(2048, seed=7))),
    Case("expected output length", {"tpot_cost"}, asked=replace(ASKED, expected_output_tokens=900)),
    Case("context", {"tpot", "first_step"}, asked=request("asked", tokens(65_536, seed=7))),
    Case("priority class: interactive or batch", {"ttft_cost", "tpot_cost"}, asked=replace(ASKED, service=BATCH)),
    Case(
        "priority class: its objectives",
        {"ttft_cost"},
        asked=replace(ASKED, service=ServiceClass("strict", ttft_floor_s=0.0, ttft_factor=0.1)),
    ),
    Case("splittable", {"rows"}, asked=replace(ASKED, splittable=False)),
]


@pytest.mark.parametrize("case", ENDPOINT_CASES + REQUEST_CASES, ids=lambda case: case.input)
def test_input_is_read(case: Case) -> None:
    before = decided(case.beside, NETWORK, lambda made: None, ASKED)
    after = decided(case.fleet, case.network, case.change, case.asked)
    assert case.differs <= differences(before, after)


@pytest.mark.parametrize(
    "case", [case for case in ENDPOINT_CASES if case.avoided is not None], ids=lambda case: case.input
)
def test_choice_follows_the_input(case: Case) -> None:
    """Between two equal racks chance decides; when one has become worse, chance has no say any more."""

    def endpoints(fleet: Sequence[Endpoint], change: Callable[[Scheduler], object]) -> list[set[EndpointId]]:
        return [
            set(chosen(decided(fleet, case.network, change, ASKED, seed, local_prefill=False))) for seed in range(8)
        ]

    assert any(case.avoided in taken for taken in endpoints(case.beside, lambda made: None))
    assert not any(case.avoided in taken for taken in endpoints(case.fleet, case.change))


def test_nothing_differs_between_equal_situations() -> None:
    before, after = (decided(FLEET, NETWORK, lambda made: None, ASKED) for _ in range(2))
    assert differences(before, after) == set()
    assert len(rows_of(before)) == 6, "four pairs and two local plans: all rows are in the record"


def test_reusable_kv() -> None:
    """Two prompts of one length, of which one begins like what is cached."""
    strange = request("asked", tokens(len(PROMPT), seed=8))
    same = request("asked", PROMPT)
    before, after = (decided(FLEET, NETWORK, stored(EndpointId("r2-p1")), asked) for asked in (strange, same))
    assert {"compute_prefill", "choice"} <= differences(before, after)
    assert (before.chosen.plan.action, after.chosen.plan.action) == (Action.RECOMPUTE, Action.HIT)
    assert (before.chosen.plan.cached_tokens, after.chosen.plan.cached_tokens) == (0, 2048)
    assert (before.cache_location, after.cache_location) == (None, EndpointId("r2-p1"))


def test_block_group_state_is_in_the_record() -> None:
    """Absent, filling because a sibling is on its way there, ready because the engine said so."""
    states = {}
    for name, change in {
        "absent": lambda made: None,
        "filling": lambda made: made.state.index.expect(0, ASKED.block_hashes),
        "ready": stored(P1),
    }.items():
        decision = decided(FLEET, NETWORK, change, ASKED)
        states[name] = decision.cache_state
        assert (chosen(decision)[0] == P1) or name == "absent"
    assert states == {name: name for name in states}


def test_a_sibling_on_its_way_counts_as_cached() -> None:
    """The second of two equal prompts finds the first one's blocks, before any engine has said a word of them."""
    made = scheduler(FLEET)
    first, second = (
        next(e.decision for e in made.handle(RequestArrived(request(name, PROMPT)), NOW) if isinstance(e, Record))
        for name in ("first", "second")
    )
    there = first.chosen.plan.prefill
    cached = {row.plan.prefill: row.plan.cached_tokens for row in (second.chosen, *second.others)}
    assert cached == {e.id: 4080 if e.id == there else 0 for e in FLEET}
    assert second.cache_location == there


def test_age_of_a_report_is_read() -> None:
    """What has not reported for too long is Unknown, and takes no work."""
    made = scheduler(FLEET)
    assert made.state.view(1.0).usable.all()
    heartbeats = made.state.freshness.unknown_heartbeats * made.state.freshness.heartbeat_s
    for e in FLEET[1:]:
        made.handle(EndpointReported(report(e.id, heartbeats)), heartbeats)
    late = heartbeats + 1.0
    (record,) = [e for e in made.handle(RequestArrived(ASKED), late) if isinstance(e, Record)]
    assert [(v.endpoint, v.rule) for v in record.decision.verdicts] == [(P1, Rule.UNHEALTHY)]


def test_a_model_that_nobody_serves_is_refused() -> None:
    made = scheduler(FLEET)
    effects = made.handle(RequestArrived(replace(ASKED, model=ModelId("another"))), NOW)
    (answer,) = [e for e in effects if isinstance(e, Answer)]
    assert answer.outcome.ending.http_status == 404
    both = [*FLEET, *(replace(e, id=EndpointId(f"x-{e.id}"), model=ModelId("another")) for e in FLEET)]
    decision = decided(both, NETWORK, lambda made: None, replace(ASKED, model=ModelId("another")))
    assert {str(name)[:2] for name in chosen(decision)} == {"x-"}
    assert {v.endpoint for v in decision.verdicts} == {e.id for e in FLEET if e.model == MODEL}


# What is known and not read yet. Each entry is a field that changes nothing; when a term, a filter or a policy comes to
# read it, the test fails, and the entry moves to a case above.

UNREAD_REPORT = {
    "gpu_utilization": 0.99,
    "kv_blocks": 10,
    "block_tokens": 32,
    "prefix_queries_tokens": 1e6,
    "prefix_hits_tokens": 1e6,
    "preemptions": 1e6,
    "prompt_computed_tokens": 1e6,
    "prompt_reused_tokens": 1e6,
    "prompt_pulled_tokens": 1e6,
}
UNREAD_REQUEST = {
    "tenant": TenantId("somebody"),
    "priority": 9,
    "max_output_tokens": 100_000,
    "streamed": True,
    "inferred_only": True,
    "exact": False,
    "gateway_cpu_s": 3.0,
}
"""A tenant with quotas or reserves is told apart (tests/scheduler/test_quotas.py); here nothing is said of any."""
READ_REPORT = {"scraped_s", "waiting", "running", "kv_usage"}
READ_REQUEST = {
    "model",
    "service",
    "prompt_tokens",
    "block_tokens",
    "block_hashes",
    "expected_output_tokens",
    "splittable",
    "copy_to",
}
ABSENT = ("cpu", "pcie", "remote_read")
"""Inputs of B3 without a field: free CPU memory, a bus apart from the host's link, remote reads."""


@pytest.mark.parametrize("name", UNREAD_REPORT)
def test_unread_figures_of_a_report(name: str) -> None:
    before = decided(FLEET, NETWORK, reports(P1), ASKED)
    after = decided(FLEET, NETWORK, reports(P1, **{name: UNREAD_REPORT[name]}), ASKED)
    assert differences(before, after) == set()


@pytest.mark.parametrize("name", UNREAD_REQUEST)
def test_unread_fields_of_a_request(name: str) -> None:
    before = decided(FLEET, NETWORK, lambda made: None, ASKED)
    after = decided(FLEET, NETWORK, lambda made: None, replace(ASKED, **{name: UNREAD_REQUEST[name]}))
    assert differences(before, after) == set()


def test_the_lists_are_complete() -> None:
    report_fields = set(EndpointReport.__struct_fields__) - {"endpoint"}
    assert report_fields == UNREAD_REPORT.keys() | READ_REPORT
    assert {f.name for f in fields(Request)} - {"id"} == UNREAD_REQUEST.keys() | READ_REQUEST
    names = report_fields | {f.name for kind in (Request, Endpoint) for f in fields(kind)}
    assert not [name for name in names if name.startswith(ABSENT)]


def test_remote_reads_and_migrations_are_not_planned_yet() -> None:
    decision = decided(FLEET, NETWORK, stored(EndpointId("r2-p1")), ASKED)
    assert {row.plan.action for row in (decision.chosen, *decision.others)} <= {Action.HIT, Action.RECOMPUTE}
