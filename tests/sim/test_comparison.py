"""Many runs from one, and what may be said of their differences."""

import numpy as np
import pytest

from vicinal.observe.intervals import interval, paired
from vicinal.sim.comparison import arm
from vicinal.wiring.parallel import Workers
from vicinal.wiring.runs import Run, RunError, Work, arrivals, execute
from vicinal.wiring.simulated import Physics, Truth
from vicinal.wiring.sweep import at, planned, read_sweep

BASE = Run(cluster="block_tokens=256", work=Work(source="conversation", limit=60))


def test_an_interval_holds_the_mean_nineteen_times_of_twenty():
    stream = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        found = interval(stream.normal(3.0, 2.0, size=4).tolist())
        held += abs(found.mean - 3.0) <= (found.half_width or 0.0)
    assert held / 2000 == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 2000) ** 0.5)


def test_pairing_drops_what_seeds_have_in_common():
    base = [1.0, 10.0, 100.0]
    found = paired([value * 1.5 for value in base], base)
    assert found.mean == pytest.approx(0.5)
    assert found.half_width == pytest.approx(0.0, abs=1e-9)
    assert found.excludes_zero


def test_every_policy_seed_and_point_is_planned_once():
    sweep = read_sweep(["oversubscription=1,8", "rate=2,4"])
    plans = planned(BASE, ["cost", "round_robin"], [0, 1, 2], sweep)
    assert len(plans) == len({(p.run.policy, p.run.seed, *p.point.values()) for p in plans}) == 24
    last = plans[-1].run
    assert (last.shape, last.work.rate, last.policy, last.seed) == ({"oversubscription": "8"}, 4.0, "round_robin", 2)


def test_a_point_changes_work_world_and_shape():
    run = at(BASE, {"limit": "7", "noise": "0.2", "truth": "fit", "heartbeat_s": "2", "racks": "3"})
    assert (run.work.limit, run.physics.noise, run.physics.truth, run.heartbeat_s) == (7, 0.2, Truth.FIT, 2.0)
    assert run.shape == {"racks": "3"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rate"], "--sweep rate: write key=value,value"),
        (["rate="], "write key=value"),
        (["rate=1", "rate=2"], "given twice"),
        (["rte=1"], "'rte' cannot be swept; did you mean \"rate\"?"),
        (["rate=fast"], "sweep: Expected `float"),
    ],
)
def test_sweeps_that_cannot_be_are_named(words, said):
    with pytest.raises(RunError) as caught:
        planned(BASE, ["cost"], [0], read_sweep(words))
    assert said in str(caught.value)


def test_processes_give_what_one_process_gives():
    runs = [plan.run for plan in planned(BASE, ["cost", "round_robin"], [0], {})]
    alone = Workers(1).outcomes(runs)
    with Workers(2) as workers:
        together = workers.outcomes(runs)
    assert [o.ttft_quantiles_s for o in alone] == [o.ttft_quantiles_s for o in together]
    assert [o.result.policy for o in together] == ["cost", "round_robin"]


def test_an_arm_is_held_against_the_first_policy_seed_by_seed():
    runs = [plan.run for plan in planned(BASE, ["least_loaded", "round_robin"], [0, 1], {})]
    results = [outcome.result for outcome in Workers(1).outcomes(runs)]
    made = arm("round_robin", {}, results[2:], results[:2])
    assert made.ttft_vs_first is not None
    own, theirs = ([result.ttft_s.mean or 0.0 for result in each] for each in (results[2:], results[:2]))
    assert made.ttft_vs_first.mean == pytest.approx(np.mean([a / b - 1 for a, b in zip(own, theirs, strict=True)]))


def test_a_rate_is_requests_per_second_whatever_the_work(tmp_path):
    path = tmp_path / "t.jsonl"
    lines = [
        f'{{"timestamp": {k * 100}, "input_length": 512, "output_length": 1, "hash_ids": [{k}]}}' for k in range(101)
    ]
    path.write_text("\n".join(lines))
    for source in (str(path), "independent"):
        times = [a.at_s for a in arrivals(Work(source=source, rate=4.0, limit=101 if source == str(path) else 4000), 1)]
        assert (len(times) - 1) / (times[-1] - times[0]) == pytest.approx(4.0, rel=0.08)
    scaled = [a.at_s for a in arrivals(Work(source=str(path), scale=5.0), 1)]
    assert scaled[-1] == pytest.approx(2.0)
    cut = list(arrivals(Work(source=str(path), duration_s=1.0), 1))
    assert len(cut) == 10


@pytest.mark.parametrize("work", [Work(rate=0.0), Work(scale=-1.0), Work(rate=float("inf"))])
def test_impossible_rates_are_refused(work):
    with pytest.raises(RunError):
        list(arrivals(work, 0))


def test_a_file_is_no_made_cluster(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text("")
    with pytest.raises(RunError, match="can be set for a made cluster only"):
        execute(Run(cluster=str(path), shape={"racks": "2"}, physics=Physics()))
