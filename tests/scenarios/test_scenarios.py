"""Scenarios: the search for a knee, how figures are put together, and the command."""

import json
import subprocess
import sys

import pytest
from msgspec.structs import replace

from vicinal.cli.scenario_plots import plot_report
from vicinal.scenarios.figures import attainment, figures, mean_ttft_s, relative_ttft
from vicinal.scenarios.knees import best_knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.markdown import markdown
from vicinal.scenarios.registry import SCENARIOS, scenario
from vicinal.scenarios.report import Plot, Report, ScenarioError, at_least, at_most
from vicinal.sim.result import Result
from vicinal.sim.stability import Unstable
from vicinal.wiring.parallel import Workers
from vicinal.wiring.runs import Run, Work, execute

BASE = Run(cluster="block_tokens=512", work=Work(source="conversation", limit=40))


@pytest.fixture(scope="module")
def result() -> Result:
    return execute(BASE).result


class Imagined(Laboratory):
    """A laboratory whose runs meet their objectives up to each policy's own knee."""

    def __init__(self, result, knees):
        super().__init__(1, Workers(1), None, lambda _: None)
        object.__setattr__(self, "imagined", (result, knees))
        object.__setattr__(self, "tried", [])

    def results(self, runs, about):
        result, knees = self.imagined
        self.tried.extend((run.policy, run.work.scale) for run in runs)
        return [replace(result, attainment=0.95 if run.work.scale <= knees[run.policy] else 0.5) for run in runs]


@pytest.mark.parametrize("knee", [1.0, 2.7, 7.3, 11.9])
def test_the_best_knee_is_found_to_a_tenth(result, knee):
    laboratory = Imagined(result, {"a": knee, "b": 0.9 * knee + 0.1, "c": 1.0})
    found = best_knee(laboratory, BASE, ("a", "b", "c"), "test", low=1.0, high=12.0)
    assert knee / 1.1 <= found.scale <= knee
    assert found.policy in ("a", "b", "c")
    assert max(scale for policy, scale in laboratory.tried if policy == "c") <= 12.0**0.5 + 1e-9


def test_nobody_at_the_low_end_is_an_error(result):
    with pytest.raises(ValueError, match="no policy meets"):
        best_knee(Imagined(result, {"a": 0.5}), BASE, ("a",), "test", low=1.0, high=12.0)


def test_an_unstable_run_has_no_finite_figure(result):
    broken = replace(result, unstable=Unstable(1.0, 500, 2.0, 3.0))
    assert mean_ttft_s([result, broken]) == float("inf")
    assert attainment([result, broken]) == pytest.approx((result.attainment or 0.0) / 2)
    assert relative_ttft([broken], [result]) is None
    assert figures([broken])["ttft_mean_s"] is None
    assert figures([result])["ttft_mean_s"] == result.ttft_s.mean


def test_arms_have_every_seed():
    laboratory = Laboratory(2, Workers(1), None, lambda _: None)
    found = laboratory.arms({"cost": BASE, "turns": replace(BASE, policy="round_robin")}, "test")
    assert {name: [each.seed for each in results] for name, results in found.items()} == {
        "cost": [0, 1],
        "turns": [0, 1],
    }
    assert found["turns"][0].policy == "round_robin"


def test_a_missing_trace_says_what_is_needed(tmp_path):
    for folder in (None, tmp_path):
        with pytest.raises(ScenarioError, match="VICINAL_TRACES"):
            Laboratory(1, Workers(1), folder, lambda _: None).trace("mooncake/conversation_trace.jsonl")


def test_a_report_in_markdown_has_verdicts_and_arms():
    report = Report(
        "name",
        "what is compared",
        3,
        {"one": {"ttft_mean_s": 1.5, "attainment": 0.25}, "two": {"ttft_mean_s": None}},
        [at_most("claim", 2.0, 1.0), at_least("other", 2.0, 1.0)],
        ["A note."],
    )
    text = markdown(report)
    assert "| claim | 2 | at most 1 | **no** |" in text
    assert "| other | 2 | at least 1 | yes |" in text
    assert "| one | 1.500 | 25.0 % |" in text
    assert "| two | – | – |" in text
    assert "A note." in text


def test_a_reports_plots_are_drawn_one_file_each(tmp_path):
    plots = [
        Plot("curve", "s", "requests/s", {"a": [(0.0, 1.0), (1.0, None), (2.0, 3.0)]}),
        Plot("trade", "cost", "gain", {"b": [(1.0, 2.0)]}, marked=True),
    ]
    paths = plot_report(tmp_path / "new", Report("name", "about", 1, {}, [], plots=plots))
    assert [path.name for path in paths] == ["name-curve.png", "name-trade.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


def test_every_scenario_says_what_it_is():
    assert all(run.__doc__ and run.__name__ == name for name, run in SCENARIOS.items())
    with pytest.raises(ScenarioError, match="Did you mean 'netkv'"):
        scenario("netvk")


def test_the_command_lists_and_explains():
    ran = subprocess.run(
        [sys.executable, "-m", "vicinal.cli.main", "scenario", "--list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [line.split()[0] for line in ran.stdout.splitlines()] == list(SCENARIOS)


@pytest.mark.mission("B12", "B13")
def test_stale_information_in_one_seed():
    ran = subprocess.run(
        [sys.executable, "-m", "vicinal.cli.main", "scenario", "stale_information", "--seeds", "1", "--json"],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    said = json.loads(ran.stdout)
    assert set(said) == {"name", "about", "seeds", "arms", "verdicts", "notes", "plots"}
    assert all(verdict["holds"] for verdict in said["verdicts"]), said["verdicts"]
    assert ran.returncode == 0
