"""A configuration becomes the core's values: SI units, defaults of the model filled in, and the default cluster of the
design."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from vicinal.config.cluster import endpoints, services, tokenizer_folder, tree_network
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Service
from vicinal.domain.endpoint import Placement, Role
from vicinal.domain.request import BATCH, INTERACTIVE, ServiceClass
from vicinal.topology.graph import Level
from vicinal.topology.tree import shared_level, tree_topology


def test_the_default_cluster_is_two_racks_of_two_and_two() -> None:
    fleet = endpoints(default_cluster())
    assert [e.id for e in fleet] == ["r1-p1", "r1-p2", "r1-d1", "r1-d2", "r2-p1", "r2-p2", "r2-d1", "r2-d2"]
    assert [e.role for e in fleet] == [Role.PREFILL, Role.PREFILL, Role.DECODE, Role.DECODE] * 2
    assert len({e.placement.host for e in fleet}) == 8
    first = fleet[0]
    assert (first.kv_tokens, first.block_tokens, first.kv_bytes_per_token) == (1_200_000, 16, 327_680)
    assert (first.model, first.profile) == ("llama-3.1-70b", "llama-3.1-70b-h100-tp8-vllm")
    assert (first.model_tokens_max, first.nic_bytes_per_s) == (131_072, 25e9)
    assert first.placement == Placement("r1-p1-host", "r1", "pod1", "site1")
    assert shared_level(fleet[0], fleet[3]) is Level.LEAF
    assert shared_level(fleet[0], fleet[7]) is Level.POD


def test_its_network_is_oversubscribed_eight_to_one() -> None:
    config = default_cluster()
    network = tree_network(config)
    assert (network.host_latency_s, network.leaf_latency_s, network.spine_latency_s) == pytest.approx(
        (5e-6, 1e-5, 2e-5)
    )
    topology = tree_topology(endpoints(config), network)
    across = topology.path(0, 7)
    assert min(topology.bytes_per_s[list(across.links)]) == 4 * 25e9 / 8


@pytest.mark.parametrize("base_port", [8000, 20_000])
def test_its_ports_follow_from_one(base_port: int) -> None:
    config = default_cluster(base_port=base_port)
    assert (config.server.port, config.server.admin_port) == (base_port, base_port + 1)
    last = endpoints(config)[-1]
    assert last.url == f"http://127.0.0.1:{base_port + 31}"
    assert (last.events_url, last.replay_url) == (
        f"tcp://127.0.0.1:{base_port + 32}",
        f"tcp://127.0.0.1:{base_port + 33}",
    )


def test_overrides_of_an_endpoint_and_of_an_uplink() -> None:
    config = default_cluster()
    special = replace(
        config.endpoint[0],
        profile="other",
        nic_gbytes_per_s=50.0,
        tokens_max=99,
        kv_tokens=None,
        kv_blocks=5,
        url="http://127.0.0.1:8010/",
    )
    config = replace(
        config,
        endpoint=(special, *config.endpoint[1:]),
        network=replace(config.network, uplinks_gbytes_per_s={"r1": 3.0}),
    )
    first = endpoints(config)[0]
    assert (first.profile, first.nic_bytes_per_s, first.model_tokens_max) == ("other", 50e9, 99)
    assert (first.kv_blocks, first.url) == (5, "http://127.0.0.1:8010")
    assert tree_network(config).uplink_bytes_per_s == {"r1": 3e9}


def test_services_are_the_domains_two_unless_the_file_names_others() -> None:
    config = default_cluster()
    assert services(config) == (INTERACTIVE, BATCH)
    assert services(replace(config, service=(Service(name="chat"),))) == (ServiceClass("chat"),)


def test_the_packaged_tokenizer_is_found_and_none_is_none() -> None:
    config = default_cluster()
    folder = tokenizer_folder(config)
    assert folder is not None
    assert (folder / "tokenizer.json").is_file()
    assert tokenizer_folder(replace(config, model=replace(config.model, tokenizer=""))) is None
    assert tokenizer_folder(replace(config, model=replace(config.model, tokenizer="a/b"))) == Path("a/b")
