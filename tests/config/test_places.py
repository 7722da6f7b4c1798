"""Places of endpoints from Slurm's or Kubernetes' file, and what is said when they cannot be had."""

import json
from pathlib import Path

import pytest

from vicinal.config.cluster import endpoints, tree_network
from vicinal.config.fleet import Config
from vicinal.config.load import parse
from vicinal.config.problems import ConfigError
from vicinal.config.toml import to_toml
from vicinal.domain.endpoint import Placement
from vicinal.topology.graph import Level
from vicinal.topology.tree import tree_topology

pytestmark = pytest.mark.mission("A2")

MODEL = """\
[model]
name = "m"
profile = "p"
tokens_max = 4096
kv_bytes_per_token = 1024
"""
SLURM = """\
SwitchName=r1 Nodes=h[1-2]
SwitchName=r2 Nodes=h3
SwitchName=pod1 Switches=r[1-2]
"""


def endpoint(name: str, **keys: str) -> str:
    port = 9000 + int(name[1:])
    said = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
    return f'[[endpoint]]\nid = "{name}"\nurl = "http://127.0.0.1:{port}"\nkv_blocks = 100\n{said}'


def text(path: Path, *entries: str, key: str = "slurm_topology") -> str:
    return MODEL + f'[network]\n{key} = "{path}"\n' + "".join(entries)


def problems(words: str) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(words, "v.toml", {})
    return str(refused.value).splitlines()


def places(config: Config) -> list[Placement]:
    return [each.placement for each in endpoints(config)]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "topology.conf"
    path.write_text(SLURM)
    return path


FOUR = (
    endpoint("e1", host="h1"),
    endpoint("e2", host="h2"),
    endpoint("e3", host="h3"),
    endpoint("e4"),
)


def test_hosts_get_their_places_and_what_has_no_host_stays_unknown(conf: Path) -> None:
    config = parse(text(conf, *FOUR), "v.toml", {})
    assert places(config) == [
        Placement("h1", "r1", "pod1"),
        Placement("h2", "r1", "pod1"),
        Placement("h3", "r2", "pod1"),
        Placement(),
    ]
    topology = tree_topology(endpoints(config), tree_network(config))
    assert [topology.path(0, slot).level for slot in (1, 2, 3)] == [Level.LEAF, Level.POD, Level.UNKNOWN]


def test_what_the_endpoint_says_wins_key_by_key(conf: Path) -> None:
    own = (
        endpoint("e1", host="h1", leaf="mine"),
        endpoint("e2", host="h3", site="s"),
        endpoint("e3", host="h9", leaf="r7"),
    )
    assert places(parse(text(conf, *own), "v.toml", {})) == [
        Placement("h1", "mine", "pod1"),
        Placement("h3", "r2", "pod1", "s"),
        Placement("h9", "r7"),
    ]


def test_kubernetes_nodes_give_places_too(tmp_path: Path) -> None:
    labels = {"network.topology.nvidia.com/block": "b1", "topology.kubernetes.io/zone": "z"}
    path = tmp_path / "nodes.json"
    path.write_text(json.dumps({"items": [{"metadata": {"name": "h1", "labels": labels}}]}))
    config = parse(text(path, endpoint("e1", host="h1"), key="kubernetes_nodes"), "v.toml", {})
    assert places(config) == [Placement("h1", "b1", "", "z")]


def test_a_placed_configuration_can_be_written_and_read_without_the_file(conf: Path) -> None:
    config = parse(text(conf, *FOUR), "v.toml", {})
    conf.unlink()
    assert parse(to_toml(config), "capture", {}) == config


def test_a_variable_may_name_the_file(conf: Path) -> None:
    config = parse(MODEL + FOUR[0], "v.toml", {"VICINAL_NETWORK__SLURM_TOPOLOGY": str(conf)})
    assert places(config) == [Placement("h1", "r1", "pod1")]


def test_a_host_that_the_file_lacks_is_named(conf: Path) -> None:
    assert problems(text(conf, endpoint("e1", host="h1"), endpoint("e2", host="h22"))) == [
        f'v.toml:17: endpoint[1].host: "h22" is not in {conf}: add it there, or say the endpoint\'s leaf; '
        'did you mean "h2"?'
    ]


def test_a_line_that_is_wrong_is_named_in_its_own_file(conf: Path) -> None:
    conf.write_text(SLURM + "SwitchName=r3 Nodes=h[4-\nSwitchName=r3 Nodes h5\n")
    assert problems(text(conf, *FOUR)) == [
        f'{conf}:4: "h[4-" is no hostlist; expected names like h1,h2 or h[1-8,10]',
        f'{conf}:5: "Nodes h5" is no KEY=VALUE; expected SwitchName=NAME Nodes=HOSTS or SwitchName=NAME '
        "Switches=SWITCHES",
    ]
    (problem,) = problems(text(conf, *FOUR, key="kubernetes_nodes"))
    assert problem.startswith(f"{conf}:1: not JSON: ")


def test_a_file_that_cannot_be_read_is_put_down_to_its_key(tmp_path: Path) -> None:
    path = tmp_path / "none.conf"
    assert problems(text(path, *FOUR)) == [f"v.toml:7: network.slurm_topology: {path}: No such file or directory"]
    path.write_bytes(b"SwitchName=\xff")
    assert problems(text(path, *FOUR)) == [f"v.toml:7: network.slurm_topology: {path}: byte 11 is not UTF-8"]


def test_only_one_file_may_place_the_hosts(conf: Path) -> None:
    both = text(conf, *FOUR).replace("[network]\n", f'[network]\nkubernetes_nodes = "{conf}"\n')
    assert problems(both) == [
        "v.toml:7: network.kubernetes_nodes: slurm_topology places the hosts already; name one file"
    ]


def test_places_that_cannot_nest_are_found_whoever_says_them(conf: Path) -> None:
    (problem,) = problems(text(conf, endpoint("e1", host="h1"), endpoint("e2", host="x", leaf="r1", pod="pod2")))
    assert problem.startswith('v.toml:18: endpoint[1].leaf: leaf "r1" is in pod "pod1"')


def test_an_uplink_may_be_of_a_leaf_that_the_file_names(conf: Path) -> None:
    words = text(conf, *FOUR) + "[network.uplinks_gbytes_per_s]\nr2 = 5.0\n"
    config = parse(words, "v.toml", {})
    topology = tree_topology(endpoints(config), tree_network(config))
    assert {link.bytes_per_s for link in topology.links if link.id.startswith("leaf/r2/")} == {5e9}
