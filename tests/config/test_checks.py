"""Clusters that cannot be are refused by name."""

from collections.abc import Callable

import msgspec
import pytest

from vicinal.config.access import Access
from vicinal.config.checks import findings
from vicinal.config.cluster import hand_off
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config, Endpoint, Service, TrustGroup
from vicinal.config.problems import key_text
from vicinal.domain.endpoint import HandOff, Role

replace = msgspec.structs.replace


def found(config: Config) -> list[tuple[str, str]]:
    return [(key_text(key), text) for key, text in findings(config)]


def with_endpoint(at: int, **changes: object) -> Config:
    config = default_cluster()
    endpoints = list(config.endpoint)
    endpoints[at] = replace(endpoints[at], **changes)
    return replace(config, endpoint=tuple(endpoints))


def only(change: Callable[[Endpoint], bool]) -> Config:
    config = default_cluster()
    return replace(config, endpoint=tuple(entry for entry in config.endpoint if change(entry)))


def test_the_default_cluster_is_possible() -> None:
    assert found(default_cluster()) == []


def test_the_longest_body_finds_room() -> None:
    server = default_cluster().server
    tight = replace(server, body_bytes_max=2**26, long_bodies_bytes_max=2**27 - 1)
    (finding,) = found(replace(default_cluster(), server=tight))
    assert finding[0] == "server.long_bodies_bytes_max"
    assert str(2**27) in finding[1]
    for fine in (replace(tight, long_bodies_bytes_max=2**27), replace(tight, long_body_bytes=2**26)):
        assert found(replace(default_cluster(), server=fine)) == []


def test_somebody_must_decode_and_need_not_prefill_apart() -> None:
    assert found(only(lambda entry: False)) == [
        ("endpoint", "no endpoint; add an [[endpoint]] table with id, url and kv_blocks")
    ]
    assert found(only(lambda entry: entry.role is Role.PREFILL)) == [
        ("endpoint", 'no endpoint decodes; give at least one role = "decode" or "both"')
    ]
    assert found(only(lambda entry: entry.role is Role.DECODE)) == []


@pytest.mark.parametrize(
    ("at", "changes", "key", "text"),
    [
        (3, {"id": "r1-p1"}, "endpoint[3].id", '"r1-p1" is endpoint[0] already'),
        (1, {"url": "http://localhost:8010"}, "endpoint[1].url", "127.0.0.1:8010 is taken by endpoint[0].url"),
        (1, {"url": "http://127.0.0.1:8001"}, "endpoint[1].url", "127.0.0.1:8001 is taken by server.admin_port"),
        (1, {"replay_url": "tcp://127.0.0.1:8014"}, "endpoint[1].replay_url", "is taken by endpoint[1].events_url"),
        (2, {"url": "http://127.0.0.1:0"}, "endpoint[2].url", "has no port between 1 and 65535"),
        (2, {"events_url": "tcp://127.0.0.1:65536"}, "endpoint[2].events_url", "has no port between 1 and 65535"),
        (2, {"events_url": "tcp://*:5557"}, "endpoint[2].events_url", "name the engine's host instead of *"),
        (2, {"replay_url": "tcp://*:5558"}, "endpoint[2].replay_url", "name the engine's host instead of *"),
        (0, {"hand_off": False}, "endpoint[0].hand_off", 'has role "prefill" and no hand-off'),
        (2, {"hand_off": False}, "endpoint[2].hand_off", 'give it role = "both" or hand_off = true'),
        (2, {"kv_tokens": None}, "endpoint[2]", "give kv_blocks or kv_tokens"),
        (2, {"kv_blocks": 9}, "endpoint[2].kv_tokens", "kv_blocks says it already"),
        (2, {"kv_tokens": 15}, "endpoint[2].kv_tokens", "less than one block, which has 16 tokens"),
        (2, {"host_tokens": 15}, "endpoint[2].host_tokens", "less than one block, which has 16 tokens"),
        (2, {"host_tokens": 0, "ssd_tokens": 160}, "endpoint[2].ssd_tokens", "give host_tokens"),
        (2, {"block_tokens": 32}, "endpoint[2].block_tokens", '"r1-d1" has block_tokens 32 and "r1-p1" has 16'),
        (2, {"kv_bytes_per_token": 7}, "endpoint[2].kv_bytes_per_token", 'kv_bytes_per_token 7 and "r1-p1" has 327680'),
        (1, {"host": "r2-p1-host"}, "endpoint[4].host", '"r2-p1-host" is under leaf "r1" and under leaf "r2"'),
        (1, {"pod": "pod2"}, "endpoint[1].leaf", 'leaf "r1" is in pod "pod1" of site "site1" and in pod "pod2"'),
    ],
)
def test_what_cannot_be_is_named(at: int, changes: dict[str, object], key: str, text: str) -> None:
    where, what = found(with_endpoint(at, **changes))[0]
    assert where == key
    assert text in what


@pytest.mark.parametrize(
    ("at", "changes", "key", "text"),
    [
        (0, {"dialect": "sgl"}, "endpoint[0].dialect", 'not a dialect that is there; did you mean "sglang"?'),
        (0, {"dialect": "tgi"}, "endpoint[0].dialect", "known here: vllm, sglang, openai"),
        (
            0,
            {"hand_off": HandOff.BOOTSTRAP},
            "endpoint[0].hand_off",
            '"vllm" has no hand-off "bootstrap"; it has "nixl"',
        ),
        (2, {"dialect": "openai"}, "endpoint[2].hand_off", 'give it role = "both"'),
        (2, {"dialect": "openai", "role": Role.BOTH}, "endpoint[2].events_url", "has no KV events; leave it out"),
        (
            0,
            {"hand_off": HandOff.MOONCAKE},
            "endpoint[0]",
            'hands off by "mooncake", and no endpoint of that kind decodes',
        ),
        (2, {"dialect": "sglang"}, "endpoint[2]", 'by "bootstrap", and no endpoint of that kind prefills'),
        (
            2,
            {"dialect": "sglang", "role": Role.BOTH, "hand_off": HandOff.BOOTSTRAP},
            "endpoint[2].hand_off",
            'is between engines of role "prefill" and "decode"',
        ),
    ],
)
def test_what_a_dialect_cannot_do_is_named(at: int, changes: dict[str, object], key: str, text: str) -> None:
    where, what = found(with_endpoint(at, **changes))[0]
    assert where == key
    assert text in what


def test_true_is_a_dialects_own_way() -> None:
    first = default_cluster().endpoint[0]
    assert hand_off(first) is HandOff.NIXL
    assert hand_off(replace(first, dialect="sglang")) is HandOff.BOOTSTRAP
    assert hand_off(replace(first, dialect="sglang", role=Role.BOTH)) is None, "an engine without a mode has none"
    assert hand_off(replace(first, dialect="openai")) is None
    assert hand_off(replace(first, hand_off=False)) is None
    assert hand_off(replace(first, hand_off=HandOff.MOONCAKE)) is HandOff.MOONCAKE


def test_ranks_share_an_address_and_nothing_else() -> None:
    config = default_cluster()
    d1, d2 = config.endpoint[2], config.endpoint[3]
    shared = replace(d2, url=d1.url, data_parallel_rank=1)

    def of(first: Endpoint, second: Endpoint) -> list[tuple[str, str]]:
        return found(replace(config, endpoint=(*config.endpoint[:2], first, second, *config.endpoint[4:])))

    assert of(replace(d1, data_parallel_rank=0), shared) == []
    assert [key for key, _ in of(replace(d1, data_parallel_rank=1), shared)] == ["endpoint[3].data_parallel_rank"]
    assert [key for key, _ in of(d1, shared)] == ["endpoint[3].url"], "one of them names no rank"


def test_free_ports_and_unknown_places_clash_with_nothing() -> None:
    config = default_cluster()
    config = replace(config, server=replace(config.server, port=0, admin_port=0))
    nowhere = tuple(replace(entry, host="", leaf="", pod="", site="") for entry in config.endpoint)
    assert found(replace(config, endpoint=nowhere)) == []


def test_an_uplink_of_no_leaf_and_a_service_named_twice() -> None:
    config = default_cluster()
    config = replace(config, network=replace(config.network, uplinks_gbytes_per_s={"r1": 1.0, "pod1": 1.0, "r11": 1.0}))
    assert found(config) == [
        ("network.uplinks_gbytes_per_s.r11", 'no endpoint is in a leaf or pod "r11"; did you mean "r1"?')
    ]
    twice = replace(default_cluster(), service=(Service(name="chat"), Service(name="batch"), Service(name="chat")))
    assert found(twice) == [("service[2].name", '"chat" is service[0] already')]


def with_groups(*groups: TrustGroup, **server: object) -> Config:
    config = default_cluster()
    return replace(config, trust_group=groups, server=replace(config.server, trust_tenant_header=True, **server))


@pytest.mark.mission("B10")
@pytest.mark.parametrize(
    ("groups", "key", "text"),
    [
        ((("a", ()),), "trust_group[0].tenants", "without tenants"),
        ((("a", ("x",)), ("a", ("y",))), "trust_group[1].name", '"a" is trust_group[0] already'),
        ((("a", ("x",)), ("b", ("y", "x"))), "trust_group[1].tenants", '"x" is in group "a" already'),
        ((("a", ("default",)),), "trust_group[0].tenants", "they are in the default group"),
    ],
)
def test_groups_that_cannot_be(groups: tuple, key: str, text: str) -> None:
    made = with_groups(*(TrustGroup(name=name, tenants=tenants) for name, tenants in groups))
    ((where, what),) = found(made)
    assert where == key
    assert text in what


@pytest.mark.mission("B10")
def test_groups_need_a_tenant_and_engines_that_salt() -> None:
    group = TrustGroup(name="a", tenants=("x", "y"))
    assert found(with_groups(group)) == []
    assert found(with_groups(isolate_tenants=True)) == []
    for unknown in (
        replace(default_cluster(), trust_group=(group,)),
        replace(default_cluster(), server=replace(default_cluster().server, isolate_tenants=True)),
    ):
        ((where, what),) = found(unknown)
        assert where == "server.trust_tenant_header"
        assert "nobody's tenant is known" in what
    keyed = Access(keys_file="keys.toml")
    assert found(replace(default_cluster(), trust_group=(group,), access=keyed)) == []
    config = with_groups(group)
    plain = replace(config.endpoint[0], dialect="openai", role=Role.BOTH, events_url="", replay_url="", hand_off=False)
    problems = dict(found(replace(config, endpoint=(plain, *config.endpoint[1:]))))
    assert "has no cache salt" in problems["endpoint[0].dialect"]
    assert "endpoint[0].dialect" not in dict(found(replace(default_cluster(), endpoint=(plain,))))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_operators_on_this_machine_need_no_key(host: str) -> None:
    config = default_cluster()
    assert found(replace(config, server=replace(config.server, admin_host=host))) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "gateway.example"])
def test_operators_from_elsewhere_do(host: str) -> None:
    config = default_cluster()
    config = replace(config, server=replace(config.server, admin_host=host))
    ((where, what),) = found(config)
    assert where == "server.admin_host"
    assert "access.admin_keys_file" in what
    assert found(replace(config, access=Access(admin_keys_file="admin.toml"))) == []


def test_peers_are_addresses_and_networks() -> None:
    config = replace(default_cluster(), access=Access(trusted_peers=("10.0.0.0/24", "::1", "10.0.0.1/24", "front")))
    (_, host_bits), (where, name) = found(config)
    assert where == "access.trusted_peers"
    assert "10.0.0.1/24 has host bits set" in host_bits
    assert "'front' does not appear to be" in name
