"""What goes wrong in a run goes wrong as told, is seen by the scheduler, and loses nobody who can be served."""

from math import inf

import pytest
from msgspec.structs import replace

from tests.sim.runs import EXACT, poisson, prompt, run
from vicinal.cli.fault_words import read_death, read_link_fault
from vicinal.enginemodel.linkfaults import LinkFault
from vicinal.sim.faults import Death, EventFaults, FaultError, Faults, ReportFaults
from vicinal.topology.naming import UnknownLinkError
from vicinal.workload.arrival import Arrival


def with_faults(**faults):
    return replace(EXACT, faults=Faults(**faults))


@pytest.mark.mission("B12")
@pytest.mark.parametrize("endpoint", ["r1-p1", "r1-d1"])
def test_a_death_loses_nobody_whose_answer_had_not_begun(endpoint):
    made = run(poisson(400, 40.0), physics=with_faults(deaths=(Death(endpoint, 5.0, 9.0),)))
    endings = made.measures.endings
    assert sum(endings.values()) == 400
    assert set(endings) <= {"done", "stream_broken"}
    assert endings["stream_broken"] <= 40
    assert made.measures.warnings["leg_failed"] > 0
    assert made.servers[endpoint].incarnation == 1


def test_a_dead_endpoint_gets_no_work_until_it_reports_again():
    deaths = (Death("r1-p1", 0.5, 1000.0), Death("r1-p2", 0.5), Death("r2-p1", 0.5))
    made = run(poisson(40, 1.0), policy="least_loaded", physics=with_faults(deaths=deaths))
    assert made.measures.endings["done"] == 40
    engine = made.servers["r2-p2"].engine
    assert engine is not None
    assert engine.counters.prefix_queries_tokens >= 39 * 2048


@pytest.mark.mission("B12")
def test_without_reports_nobody_is_taken_for_idle():
    """All reports but the first are lost: after ten heartbeats nothing is known, and requests are refused."""
    lost = with_faults(reports=ReportFaults(lost=1.0))
    made = run([Arrival(at_s, prompt((int(at_s), 512)), 5) for at_s in (1.0, 100.0)], physics=lost)
    assert made.measures.endings["done"] == 1
    assert made.measures.endings["waited_too_long"] + made.measures.endings["no_endpoint"] == 1


def test_reports_that_overtake_each_other_change_nothing_for_good():
    made = run(poisson(200, 4.0), physics=with_faults(reports=ReportFaults(delay_s=0.5, jitter_s=3.0, lost=0.2)))
    assert made.measures.endings == {"done": 200}


def test_a_gap_forgets_what_an_endpoint_holds():
    whole, gappy = (
        run(
            [Arrival(float(k), prompt((0, 4096), (1 + k, 64)), 2) for k in range(60)],
            policy="prefill_first",
            physics=with_faults(events=EventFaults(gaps_per_hour=gaps)),
        )
        for gaps in (0.0, 400.0)
    )
    assert whole.measures.cached_tokens == 59 * 4096
    assert gappy.measures.cached_tokens < whole.measures.cached_tokens
    assert gappy.measures.endings == {"done": 60}


def test_late_events_leave_only_what_was_dispatched_to_go_by():
    late = with_faults(events=EventFaults(delay_s=5.0))
    made = run([Arrival(float(k), prompt((0, 4096), (1 + k, 64)), 2) for k in range(60)], physics=late)
    assert made.measures.endings == {"done": 60}


def test_a_slow_link_slows_what_crosses_it_for_as_long_as_it_lasts():
    fault = LinkFault("r1-p1/tx", 10.0, 20.0, 0.1)
    arrivals = [Arrival(at_s, prompt((int(at_s), 4096)), 2) for at_s in (1.0, 12.0, 30.0)]
    cluster = "racks=1,prefill=1,decode=1,block_tokens=64"
    made = run(arrivals, cluster=cluster, policy="round_robin", physics=with_faults(links=(fault,)))
    before, during, after = made.measures.ttft_s
    alone_s = 4096 * 327_680 / 25e9
    assert before == pytest.approx(after, rel=1e-6)
    assert during - before == pytest.approx(9 * alone_s, rel=1e-3)


def test_background_spines_and_rails_make_transfers_no_faster():
    plain, crowded, hashed = (
        sum(run(poisson(150, 6.0), policy="round_robin", cluster=cluster, physics=physics).measures.ttft_s)
        for cluster, physics in (
            ("block_tokens=64", EXACT),
            ("block_tokens=64", replace(EXACT, background=0.8)),
            ("block_tokens=64,spines=4,rails=2", EXACT),
        )
    )
    assert crowded > plain
    assert hashed >= plain


def test_overlap_hides_the_transfer_behind_the_prefill():
    """Alone on its way a transfer of 4,096 tokens takes less than its prefill, so one layer of 80 is left."""
    serial, layered = (
        run([Arrival(0.0, prompt((1, 4096)), 2)], policy="static_groups", physics=replace(EXACT, layers=layers))
        for layers in (1, 80)
    )
    alone_s = 4096 * 327_680 / 25e9
    assert serial.measures.ttft_s[0] - layered.measures.ttft_s[0] == pytest.approx(alone_s * 79 / 80, rel=1e-3)
    assert sum(serial.measures.bytes_by_level.values()) == pytest.approx(sum(layered.measures.bytes_by_level.values()))


def test_faults_of_what_is_not_there_are_named():
    with pytest.raises(FaultError, match="no endpoint is called r9-p1"):
        run(poisson(1, 1.0), physics=with_faults(deaths=(Death("r9-p1", 1.0),)))
    with pytest.raises(UnknownLinkError):
        run(poisson(1, 1.0), physics=with_faults(links=(LinkFault("leaf/r9/up", 1.0, 2.0, 0.0),)))


def test_faults_in_words():
    assert read_link_fault("leaf/r1/up*0.1@60-120") == LinkFault("leaf/r1/up", 60.0, 120.0, 0.1)
    assert read_link_fault("leaf/r1/up@60") == LinkFault("leaf/r1/up", 60.0, inf, 0.0)
    assert read_death("r1-p1@60-90") == Death("r1-p1", 60.0, 90.0)
    assert read_death("r1-p1@60") == Death("r1-p1", 60.0)
    for words in ("r1-p1", "@5", "r1-p1@soon", "r1-p1@9-3"):
        with pytest.raises(FaultError):
            read_death(words)
