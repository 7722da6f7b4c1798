"""The scenarios of flow in small editions, and that each of their checks can fail."""

from dataclasses import replace

import numpy as np
import pytest

from vicinal.scenarios import early_rejection, fairness, head_of_line, isolation, starvation
from vicinal.scenarios.fairness_of_clients import _difference
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.over_time import goodput_between, recovery_s, service_gaps, share_good_between, widest_gap
from vicinal.sim.timeline import Timeline
from vicinal.wiring.parallel import Workers
from vicinal.wiring.runs import Run, Work, execute


@pytest.fixture
def laboratory() -> Laboratory:
    return Laboratory(1, Workers(1), None, lambda _: None)


def seen(**lists) -> Timeline:
    """A timeline of windows of 1 s."""
    count = len(next(iter(lists.values())))
    zeros: list = [0] * count
    made = dict.fromkeys(("arrived", "good", "finished_good", "refused", "held", "kept"), zeros)
    made |= {"ttft_p99_s": zeros, "prefill_load": zeros, "decode_load": zeros} | lists
    return Timeline(window_s=1.0, service={}, computed={}, sent={}, **made)


class Shown:
    """A result of which only the timeline is looked at."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline


def test_goodput_and_recovery_are_read_off_windows():
    run = Shown(seen(arrived=[2] * 20, good=[2] * 5 + [0] * 8 + [1] + [2] * 6, finished_good=[0, 4] * 10))
    assert goodput_between(run, 0.0, 10.0) == 2.0
    assert share_good_between(run, 4.0, 6.0) == 0.5
    assert share_good_between(Shown(seen(arrived=[0, 0], good=[0, 0])), 0.0, 2.0) == 1.0
    # The overload ends at 10; windows 10 to 12 are bad, 13 is half good, all are good from 14 on.
    control = Shown(seen(arrived=[2] * 20, good=[2] * 20))
    assert recovery_s(run, control, 10.0, 20.0, over_s=2.0, share=0.75) == 3.0
    assert recovery_s(run, control, 10.0, 20.0, over_s=2.0, share=0.9) == 4.0
    assert recovery_s(run, control, 14.0, 20.0, over_s=2.0, share=0.9) == 0.0
    assert recovery_s(run, run, 10.0, 20.0, over_s=2.0) == 0.0
    never = Shown(seen(arrived=[2] * 20, good=[2] * 10 + [0] * 10))
    assert recovery_s(never, control, 10.0, 20.0, over_s=2.0, share=0.9) == float("inf")


def test_differences_of_service():
    gaps = service_gaps({"a": [1.0, 5.0, 0.0], "b": [3.0, 3.0, 3.0]}, {"b": 3.0}, "a", "b")
    assert gaps.tolist() == [0.0, 4.0, 3.0]
    assert widest_gap(gaps) == 4.0
    assert widest_gap(np.array([-3.0, 2.0])) == 5.0
    # Three clients for two minutes; c asks for nothing, so nobody is behind on its account.
    got = {"a": [10.0] * 120, "b": [4.0] * 120, "c": [0.0] * 120}
    asked = {"a": np.full(120, 10.0), "b": np.full(120, 9.0), "c": np.zeros(120)}
    assert _difference(got, asked) == pytest.approx((5.0, 5.0))


@pytest.mark.mission("B5")
def test_batch_work_does_not_starve_and_would_without_aging(laboratory):
    size = replace(starvation.SMALL, seconds=60.0)
    report = starvation.of_size(laboratory, size)
    verdicts = {verdict.claim: verdict for verdict in report.verdicts}
    assert verdicts["with aging: share of batch requests served within their longest wait"].value == 1.0
    assert verdicts["with aging: longest usual wait (p99) ÷ the longest allowed"].holds
    assert verdicts["without aging: share of batch requests served"].holds
    assert report.arms["no aging"]["batch_served"] < 0.5


@pytest.mark.mission("B4")
def test_a_tenant_within_its_quota_does_not_notice_the_other_and_would(laboratory):
    question = isolation._long_prompts(isolation.Size(60.0))
    results = laboratory.arms(question.runs, "test")
    verdicts = isolation._verdicts(question, results)
    assert [verdict.holds for verdict in verdicts] == [True, True, True], verdicts
    pressed = results[f"long prompts: {isolation.TIMES} times"][0]
    assert pressed.endings["quota_exceeded"] > 0
    assert pressed.unreasoned == 0


@pytest.mark.mission("B5")
def test_backlogged_tenants_get_what_their_weights_say_and_would_not(laboratory):
    arms, verdicts = fairness._backlogged(laboratory, fairness.Size(backlogged_s=25.0))
    assert [verdict.holds for verdict in verdicts] == [True, True, True], verdicts
    assert set(arms) == {
        "two backlogged, equal",
        "two backlogged, weights 1:3",
        "two backlogged, fairness none",
    }


def test_without_traces_a_part_is_left_out_with_its_reason(laboratory, monkeypatch):
    monkeypatch.setattr(fairness, "_backlogged", lambda laboratory, size: ({}, []))
    monkeypatch.setattr(fairness, "shared_prefixes", lambda laboratory, *rest: ({}, [], None))
    report = fairness.of_size(laboratory, fairness.SMALL)
    assert "VICINAL_TRACES" in report.notes[0]


def test_short_and_long_prompts_are_told_apart_by_nothing_but_their_names():
    size = head_of_line.Size(rate_per_s=8.0, long_share=0.05, seconds=10.0)
    source = head_of_line.SOURCE.format(short=7.6, long=0.4)
    result = execute(
        Run(
            cluster=head_of_line.CLUSTER,
            config=head_of_line.KINDS,
            work=Work(source=source, duration_s=size.seconds),
        )
    ).result
    assert set(result.services) == {"short", "long"}
    assert result.services["long"].tokens / result.services["long"].requests > 40_000
    assert result.services["short"].tokens / result.services["short"].requests < 4_000


@pytest.mark.mission("B6")
def test_rejection_by_current_load_swings_more_than_by_prediction(laboratory):
    report = early_rejection.of_size(laboratory, early_rejection.Size(seconds=60.0, warm_s=20.0))
    now, then = (report.arms[name] for name in ("by current load", "by prediction"))
    assert now["decode_swing"] > then["decode_swing"]
    assert then["goodput"] > now["goodput"]
    assert {line for plot in report.plots for line in plot.lines} == {
        f"{role}, {name}" for role in ("prefill", "decode") for name in ("by current load", "by prediction")
    }
