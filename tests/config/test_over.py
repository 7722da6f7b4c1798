"""A piece of TOML on top of a configuration."""

import pickle

import pytest

from vicinal.config.load import over
from vicinal.config.made import made_cluster
from vicinal.config.problems import ConfigError
from vicinal.wiring.runs import Run, cluster_of

BASE = made_cluster("racks=1")


def test_keys_go_before_those_of_their_section_and_arrays_take_the_place_of_the_whole():
    text = '[scheduler]\nhold_s_max = 7.5\n[[service]]\nname = "gold"\nttft_floor_s = 0.5\n'
    made = over(BASE, text, "piece")
    assert made.scheduler.hold_s_max == 7.5
    assert made.scheduler.queue_max == BASE.scheduler.queue_max
    assert [service.name for service in made.service] == ["gold"]
    assert made.endpoint == BASE.endpoint
    assert over(made, '[[service]]\nname = "iron"\n', "piece").service[0].name == "iron"
    assert over(BASE, "", "piece") == BASE


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[scheduler]\n\nhold_s_mx = 1.0\n", r"piece:3: scheduler\.hold_s_mx.*did you mean .hold_s_max"),
        ("[schedule]\n", "piece:1.*unknown section"),
        ("[scheduler]\nhold_s_max = -1.0\n", "piece:2"),
        ("[scheduler\n", "piece.*not valid TOML"),
    ],
)
def test_what_does_not_fit_is_told_by_line(text, said):
    with pytest.raises(ConfigError, match=said):
        over(BASE, text, "piece")


def test_a_run_carries_one():
    config = cluster_of(Run(cluster="racks=1", policy="lmetric", seed=4, config="[scheduler]\nqueue_max = 9\n"))
    assert (config.scheduler.queue_max, config.scheduler.policy, config.scheduler.seed) == (9, "lmetric", 4)


def test_what_is_wrong_survives_the_way_out_of_a_worker():
    with pytest.raises(ConfigError) as raised:
        over(BASE, "[schedule]\n", "piece")
    error = raised.value
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.problems) == (str(error), error.problems)
