"""What a report says, what it leaves out, and the strangers that it reveals."""

import numpy as np
import pytest

from tests.builders import report
from vicinal.cluster.reports import Reports
from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport

pytestmark = pytest.mark.mission("B3", "B12")

E = EndpointId("e")


def reports() -> Reports:
    made = Reports()
    made.resize(2)
    return made


def take(to: Reports, at_s: float, own_requests: float = 0, own_blocks: float = 0, **figures: float) -> None:
    to.take(0, report(E, at_s, **figures), own_requests, own_blocks, kv_blocks=1000)


def strangers(of: Reports) -> tuple[float, float]:
    row = of.table[0]
    return float(row["foreign_requests"]), float(row["foreign_blocks"])


def test_nothing_is_known_before_the_first_report() -> None:
    made = reports()
    row = made.table[0]
    assert not row["reachable"]
    assert all(np.isnan(row[name]) for name in ("waiting", "running", "kv_usage", "gpu_utilization"))
    assert made.ages_s(5.0).tolist() == [np.inf, np.inf]


def test_a_missing_figure_is_nan_and_never_idle() -> None:
    made = reports()
    made.take(0, EndpointReport(E, 1.0), own_requests=0, own_blocks=0, kv_blocks=1000)
    row = made.table[0]
    assert row["reachable"]
    assert all(np.isnan(row[name]) for name in ("waiting", "running", "kv_usage", "gpu_utilization"))
    made.take(0, EndpointReport(E, 2.0, waiting=3, kv_usage=0.0), own_requests=0, own_blocks=0, kv_blocks=1000)
    assert (row["waiting"], row["kv_usage"]) == (3.0, 0.0)
    assert np.isnan(row["running"])
    assert np.isnan(row["gpu_utilization"])


def test_a_report_without_figures_does_not_send_strangers_away() -> None:
    made = reports()
    take(made, 1.0, waiting=2, running=3, kv_usage=0.5)
    take(made, 2.0, waiting=2, running=3, kv_usage=0.5)
    assert strangers(made) == (5.0, 500.0)
    made.take(0, EndpointReport(E, 3.0, waiting=0), own_requests=0, own_blocks=0, kv_blocks=1000)
    assert strangers(made) == (5.0, 500.0)


def test_strangers_need_two_reports() -> None:
    made = reports()
    take(made, 1.0, waiting=2, running=3, kv_usage=0.5)
    assert strangers(made) == (0.0, 0.0)
    take(made, 2.0, waiting=1, running=1, kv_usage=0.7)
    assert strangers(made) == (2.0, 500.0), "as many as both reports show"
    take(made, 3.0)
    assert strangers(made) == (0.0, 0.0), "they are gone as soon as one report lacks them"


def test_own_work_is_not_strange_and_strangers_are_never_fewer_than_none() -> None:
    made = reports()
    for at_s in (1.0, 2.0):
        take(made, at_s, own_requests=5, own_blocks=600, waiting=2, running=1, kv_usage=0.5)
    assert strangers(made) == (0.0, 0.0)
    for at_s in (3.0, 4.0):
        take(made, at_s, own_requests=1, own_blocks=100, waiting=2, running=1, kv_usage=0.5)
    assert strangers(made) == (2.0, 400.0)


def test_a_report_that_was_overtaken_changes_nothing() -> None:
    made = reports()
    take(made, 5.0, waiting=7)
    take(made, 4.0, waiting=0)
    row = made.table[0]
    assert (row["reported_s"], row["waiting"]) == (5.0, 7.0)
    take(made, 6.0, waiting=7)
    assert strangers(made)[0] == 7.0


def test_age_counts_from_the_scrape_and_is_never_negative() -> None:
    made = reports()
    take(made, 3.0)
    assert made.ages_s(10.0).tolist() == [7.0, np.inf]
    assert made.ages_s(2.0)[0] == 0.0


def test_lost_until_it_reports_again() -> None:
    made = reports()
    take(made, 1.0)
    made.lose(0, 0.0)
    assert not made.table[0]["reachable"]
    take(made, 2.0)
    assert made.table[0]["reachable"]


def test_forget_and_resize() -> None:
    made = reports()
    take(made, 1.0, waiting=4)
    made.resize(3)
    assert (len(made.table), made.table[0]["waiting"]) == (3, 4.0)
    made.forget(0)
    assert made.ages_s(1.0)[0] == np.inf
    assert np.isnan(made.table[0]["waiting"])
