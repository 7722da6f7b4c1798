"""What holds at any station, whatever comes and goes: Little's law, utilisation, work conservation, overload."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from tests.theory.estimate import SPREAD, estimate
from tests.theory.queues import Floats, Sample, System, poisson, run
from vicinal.domain.effects import Dispatch
from vicinal.domain.events import EndpointReported
from vicinal.domain.report import EndpointReport
from vicinal.scheduler.scheduler import Scheduler
from vicinal.sim.stability import Backlog

LOAD = 0.8
HEARTBEAT_S = 0.2
SAMPLE = poisson(4_000, LOAD * 3, "exponential", 11)


@dataclass(slots=True)
class Seen:
    """Reports as they came, each with how many requests the scheduler held; where each request went, and when."""

    reports: list[tuple[EndpointReport, int]] = field(default_factory=list)
    sent: list[tuple[float, str]] = field(default_factory=list)


class Watched(Scheduler):
    """Notes what it is told and what it does."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.seen = Seen()

    def handle(self, event, now):
        effects = super().handle(event, now)
        if isinstance(event, EndpointReported):
            self.seen.reports.append((event.report, len(self.turns.flow)))
        self.seen.sent += [(now, effect.endpoint) for effect in effects if isinstance(effect, Dispatch)]
        return effects


@pytest.fixture(scope="module")
def stations():
    """Three servers with a queue each."""
    made = run(SAMPLE, System(servers=3, policy="least_loaded", heartbeat_s=HEARTBEAT_S), Watched)
    return made, made.simulation.scheduler.seen


def station(made, seen, name: str) -> tuple[Floats, Floats]:
    """Arrivals and departures of one server, each ascending."""
    assert [at_s for at_s, _ in seen.sent] == list(made.at_s)
    here = np.array([endpoint == name for _, endpoint in seen.sent])
    return made.at_s[here], np.sort(made.at_s[here] + made.in_system_s[here])


def area(stamps_s: Floats, until_s: Floats) -> Floats:
    """Seconds that have passed since each stamp, summed over the stamps, at each of some times."""
    count = np.searchsorted(stamps_s, until_s, side="right")
    return count * until_s - np.concatenate([[0.0], np.cumsum(stamps_s)])[count]


@pytest.mark.parametrize("number", range(3))
def test_a_report_counts_who_is_there(stations, number):
    made, seen = stations
    arrived_s, left_s = station(made, seen, f"server-{number}")
    for report, _ in seen.reports:
        if report.endpoint == f"server-{number}":
            there = np.searchsorted(arrived_s, report.scraped_s, "right")
            there -= np.searchsorted(left_s, report.scraped_s, "right")
            assert report.waiting + report.running == there


def little(there: Floats, at_s: Floats, begins_s: Floats, ends_s: Floats) -> None:
    """The mean of `there`, seen at some times, is how many begin per second times how long they last. What is seen at
    moments is a sample; its error is that of the differences from the mean since the moment before."""
    between = np.diff(area(begins_s, at_s) - area(ends_s, at_s)) / np.diff(at_s)
    sampling = estimate(there[1:] - between, warm_up=0.0)
    rate_per_s, mean_s = len(begins_s) / at_s[-1], float(ends_s.sum() - begins_s.sum()) / len(begins_s)
    assert SPREAD * sampling.error < 0.02 * there.mean()
    assert abs(there.mean() - rate_per_s * mean_s) < SPREAD * sampling.error + 0.002 * there.mean()


@pytest.mark.parametrize("number", range(3))
def test_the_mean_number_at_a_station_is_the_rate_times_the_time_there(stations, number):
    """L = lambda T: L from the reports, lambda and T from the requests' stamps."""
    made, seen = stations
    arrived_s, left_s = station(made, seen, f"server-{number}")
    reports = [report for report, _ in seen.reports if report.endpoint == f"server-{number}"][1:]
    at_s = np.array([report.scraped_s for report in reports])
    little(np.array([float(report.waiting + report.running) for report in reports]), at_s, arrived_s, left_s)


@pytest.mark.parametrize("number", range(3))
def test_a_server_is_busy_for_the_work_that_it_is_sent(stations, number):
    """Utilisation = lambda E[S], the same law for the place in service alone."""
    made, seen = stations
    arrived_s, left_s = station(made, seen, f"server-{number}")
    begun_s = np.maximum(arrived_s, np.concatenate([[0.0], left_s[:-1]]))
    reports = [report for report, _ in seen.reports if report.endpoint == f"server-{number}"][1:]
    at_s = np.array([report.scraped_s for report in reports])
    little(np.array([float(report.running) for report in reports]), at_s, begun_s, left_s)


def test_servers_are_as_busy_as_the_load_that_is_offered(stations):
    made, seen = stations
    offered_s = sum(SAMPLE.service_s)
    running = np.mean([report.running for report, _ in seen.reports if report.scraped_s])
    assert running == pytest.approx(offered_s / 3 / made.simulation.now_s, rel=0.01)


def test_no_engine_is_idle_while_somebody_waits_for_it(stations):
    _, seen = stations
    waited = [report.running for report, _ in seen.reports if report.waiting]
    assert len(waited) > 1000
    assert set(waited) == {1}


def test_no_engine_is_idle_while_the_scheduler_holds_somebody():
    sample = poisson(4_000, LOAD * 3, "exponential", 12)
    made = run(sample, System(servers=3, told_sequences=1, heartbeat_s=HEARTBEAT_S), Watched)
    running = [report.running for report, held in made.simulation.scheduler.seen.reports if held]
    assert len(running) > 1000
    assert set(running) == {1}


def overloaded(sample: Sample, servers: int) -> float:
    """Requests more in the queue, every second."""
    backlog = Backlog(waiting_min=200, arrivals_min=len(sample) - 100)
    unstable = run(sample, System(servers=servers, backlog=backlog)).simulation.unstable
    assert unstable is not None
    return unstable.slope_per_s


def test_a_backlog_grows_by_what_comes_and_is_not_served():
    regular = Sample(np.arange(4_000) / 6.0, np.ones(4_000))
    assert overloaded(regular, 4) == pytest.approx(6.0 - 4.0, rel=0.01)


def test_so_it_does_when_everything_is_random():
    """The number waiting is then a random walk of variance lambda + mu per second, and a least-squares slope over t
    seconds of one has the variance 6 (lambda + mu) / 5 t."""
    requests, rate_per_s, served_per_s = 8_000, 8.0, 4.0
    span_s = requests / rate_per_s / 2
    error = np.sqrt(1.2 * (rate_per_s + served_per_s) / span_s)
    slope_per_s = overloaded(poisson(requests, rate_per_s, "exponential", 13), 4)
    assert SPREAD * error < 0.2 * (rate_per_s - served_per_s)
    assert abs(slope_per_s - (rate_per_s - served_per_s)) < SPREAD * error
