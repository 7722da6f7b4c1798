"""The state's view: who is usable, what counts as load, and what a change of the fleet leaves behind."""

from collections.abc import Sequence

import numpy as np
import pytest

from tests.builders import BLOCK_TOKENS, endpoint, racks, report, request
from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.ledger import DecodeWork, PrefillWork
from vicinal.cluster.state import ClusterState
from vicinal.domain.endpoint import Endpoint, Role
from vicinal.domain.events import BlocksCleared
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.kvindex.hashing import ROOT
from vicinal.topology.tree import TreeNetwork, tree_topology

pytestmark = pytest.mark.mission("B3", "B12")

R = RequestId("r")


def state(endpoints: Sequence[Endpoint]) -> ClusterState:
    made = ClusterState(BLOCK_TOKENS, lambda fleet: tree_topology(fleet, TreeNetwork()), FreshnessRule(heartbeat_s=1.0))
    made.change_fleet(endpoints)
    return made


def test_who_never_reported_is_not_usable_and_who_is_late_becomes_unknown() -> None:
    made = state(racks(1, 1, 1))
    assert made.view(0.0).usable.tolist() == [False, False]
    made.apply_report(report(EndpointId("r1-d1"), 1.0))
    assert made.view(1.0).usable.tolist() == [False, True]
    assert made.view(11.0).usable.tolist() == [False, True]
    assert made.view(11.5).usable.tolist() == [False, False]
    made.apply_report(report(EndpointId("r1-d1"), 11.5))
    assert made.view(11.5).usable.tolist() == [False, True]


def test_lost_is_not_usable_until_it_reports() -> None:
    made = state(racks(1, 1, 1))
    for at_s in (0.0, 1.0):
        for e in racks(1, 1, 1):
            made.apply_report(report(e.id, at_s))
        assert made.view(at_s).usable.all()
        made.lose(EndpointId("r1-p1"), 0.0)
        assert made.view(at_s).usable.tolist() == [False, True]


def test_strangers_count_by_role() -> None:
    fleet = [endpoint("p", Role.PREFILL), endpoint("d", Role.DECODE)]
    made = state(fleet)
    made.mean_prefill_s, made.mean_context_tokens = 0.5, 1000.0
    for at_s in (1.0, 2.0):
        for e in fleet:
            made.apply_report(report(e.id, at_s, waiting=3, running=1, kv_usage=0.1))
    view = made.view(2.0)
    assert view.foreign_requests.tolist() == [4.0, 4.0]
    assert view.wait_prefill_s.tolist() == [2.0, 0.0]
    assert view.decode_sequences.tolist() == [0.0, 4.0]
    assert view.decode_context_tokens.tolist() == [0.0, 4000.0]
    assert view.blocks_in_use.tolist() == [7500.0, 7500.0]
    assert view.free_blocks.tolist() == pytest.approx([75_000 * 0.98 - 7500] * 2)


def test_own_requests_in_a_report_are_not_counted_again() -> None:
    fleet = [endpoint("p", Role.PREFILL), endpoint("d", Role.DECODE)]
    made = state(fleet)
    made.mean_prefill_s = 0.5
    made.ledger.open_prefill(R, PrefillWork(0, 2.0, 100), 0.0)
    made.ledger.hold_blocks(R, 0, 750)
    made.ledger.open_decode(R, DecodeWork(1, 50.0, 100))
    for at_s in (0.0, 0.0):
        for e in fleet:
            made.apply_report(report(e.id, at_s, running=1, kv_usage=0.01))
    view = made.view(0.0)
    assert view.wait_prefill_s.tolist() == [2.0, 0.0]
    assert view.decode_sequences.tolist() == [0.0, 1.0]
    assert view.blocks_in_use.tolist() == [750.0, 750.0]


def test_pencilled_decodes_join_the_batch_and_hold_no_hbm() -> None:
    made = state(racks(1, 1, 1))
    made.ledger.pencil_decode(R, DecodeWork(1, 50.0, 100))
    view = made.view(0.0)
    assert (view.decode_sequences[1], view.decode_context_tokens[1]) == (1.0, 50.0)
    assert view.outstanding_decode_tokens[1] == 100.0
    assert view.blocks_in_use[1] == 0.0


def test_hbm_margin_grows_with_the_reports_age() -> None:
    made = state([endpoint("d", Role.DECODE, kv_blocks=1000)])
    made.apply_report(report(EndpointId("d"), 0.0))
    assert [made.view(now).free_blocks[0] for now in (0.0, 2.0, 5.0)] == pytest.approx([980.0, 980.0, 950.0])


def test_a_newcomer_in_an_old_slot_starts_unknown() -> None:
    made = state([endpoint("old", Role.BOTH), endpoint("stays", Role.BOTH)])
    hashes = request("x", 64).block_hashes
    for slot in (0, 1):
        made.index.store(slot, ROOT, hashes)
    for e in ("old", "stays"):
        made.apply_report(report(EndpointId(e), 1.0))
        made.apply_blocks(BlocksCleared(EndpointId("nobody"), 1, 1, "reset"), 1.0)
    made.events_s[:] = 1.0
    assert made.change_fleet([endpoint("stays", Role.BOTH), endpoint("new", Role.BOTH)]) == [0]
    assert made.fleet.slots == {"stays": 1, "new": 0}
    view = made.view(1.0)
    assert view.usable.tolist() == [False, True]
    assert view.report_age_s.tolist() == [np.inf, 0.0]
    assert made.events_s.tolist() == [-np.inf, 1.0]
    assert made.index.match(hashes, 2).expected.tolist() == [0, 4]


def test_facts_about_strangers_to_the_fleet_are_passed_over() -> None:
    made = state([endpoint("a", Role.BOTH)])
    made.apply_report(report(EndpointId("ghost"), 1.0))
    made.lose(EndpointId("ghost"), 0.0)
    made.apply_blocks(BlocksCleared(EndpointId("ghost"), 1, 1, "reset"), 1.0)
    assert made.view(1.0).usable.tolist() == [False]
    assert made.events_s.tolist() == [-np.inf]


def test_open_transfers_move_to_the_new_links() -> None:
    fleet = racks(2, 1, 1)
    made = state(fleet)
    made.start_transfer(R, 0, 3, 1e9)
    wider = [*fleet, endpoint("r3-p1", Role.PREFILL, leaf="r3")]
    made.change_fleet(wider)
    names = [str(link.id) for link in made.topology.links]
    loaded = {names[link] for link in np.flatnonzero(made.ledger.link_flows[:-1])}
    assert loaded == {"r1-p1/tx", "leaf/r1/up", "leaf/r2/down", "r2-d1/rx"}
    made.ledger.end_transfer(R)
    assert not made.ledger.link_flows.any()


def test_a_view_never_shows_what_was_before_the_last_event() -> None:
    """A view is asked for before and after each event, so that nothing kept from an earlier one may be out of date."""
    made = state([])

    def after(*facts: list[bool] | list[float]) -> None:
        view = made.view(2.0)
        assert (view.usable.tolist(), view.decode_sequences.tolist(), view.wait_prefill_s.tolist()) == facts

    after([], [], [])
    made.change_fleet([endpoint("a", Role.DECODE)])
    made.mean_prefill_s = 0.5
    after([False], [0.0], [0.0])
    for at_s in (1.0, 2.0):
        made.apply_report(report(EndpointId("a"), at_s, running=2))
    after([True], [2.0], [0.0])
    made.change_fleet([endpoint("a", Role.DECODE), endpoint("b", Role.PREFILL)])
    after([True, False], [2.0, 0.0], [0.0, 0.0])
    for at_s in (1.0, 2.0):
        made.apply_report(report(EndpointId("b"), at_s, waiting=3))
    after([True, True], [2.0, 0.0], [0.0, 1.5])
    made.lose(EndpointId("a"), 0.0)
    after([False, True], [2.0, 0.0], [0.0, 1.5])
    made.change_fleet([endpoint("b", Role.PREFILL)])
    after([False, True], [0.0, 0.0], [0.0, 1.5])
    made.change_fleet([endpoint("a", Role.PREFILL), endpoint("b", Role.PREFILL)])
    made.apply_report(report(EndpointId("a"), 2.0))
    after([True, True], [0.0, 0.0], [0.0, 1.5])
    made.change_fleet([endpoint("a", Role.PREFILL), endpoint("b", Role.DECODE)])
    for at_s in (1.0, 2.0):
        made.apply_report(report(EndpointId("b"), at_s, running=1))
    after([True, True], [0.0, 1.0], [0.0, 0.0])
