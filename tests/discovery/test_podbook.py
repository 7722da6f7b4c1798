"""What a pod says of itself, and the book of pods against a naive one."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.discovery.api_server import pod
from vicinal.domain.endpoint import Placement, Role
from vicinal.gateway.discovery.podbook import ListAgainError, PodBook
from vicinal.gateway.discovery.pods import NoEngineError, PodDefaults, read_pod, sightings

DEFAULTS = PodDefaults("llm-d.ai/role", Role.BOTH, 8000, 5557, 5558, None)
RACK = "network.topology.nvidia.com/block"


def one(defaults: PodDefaults = DEFAULTS, node: dict[str, str] | None = None, **changes: object):  # type: ignore[no-untyped-def]
    (seen,) = sightings(read_pod(pod("p", **changes)), defaults, node or {})
    return seen


def test_a_pod_without_words_of_its_own_is_what_the_defaults_say() -> None:
    seen = one()
    assert (seen.name, seen.url, seen.role, seen.kv_blocks) == ("p", "http://10.0.0.1:8000", Role.BOTH, None)
    assert (seen.events_url, seen.replay_url) == ("tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558")
    assert seen.place == Placement("n1")


def test_labels_and_annotations_win() -> None:
    said = {"vicinal/port": "9000", "vicinal/events-port": "1", "vicinal/replay-port": "0", "vicinal/kv-blocks": "77"}
    seen = one(labels={"llm-d.ai/role": "prefill"}, annotations=said, ip="fd00::1")
    assert (seen.url, seen.role, seen.kv_blocks) == ("http://[fd00::1]:9000", Role.PREFILL, 77)
    assert (seen.events_url, seen.replay_url) == ("tcp://[fd00::1]:1", "")


def test_places_come_from_the_pod_and_for_the_rest_from_its_node() -> None:
    node = {RACK: "r1", "topology.kubernetes.io/zone": "z1", "kubernetes.io/hostname": "host-1"}
    assert one(node=node).place == Placement("host-1", "r1", "", "z1")
    assert one(node=node, labels={RACK: "r9"}).place == Placement("host-1", "r9", "", "z1")


def test_each_data_parallel_rank_is_an_engine_with_ports_of_its_own() -> None:
    ranks = list(sightings(read_pod(pod("p", annotations={"vicinal/data-parallel-ranks": "2"})), DEFAULTS, {}))
    assert [(r.name, r.rank, r.url) for r in ranks] == [(f"p.{n}", n, "http://10.0.0.1:8000") for n in range(2)]
    assert [r.events_url for r in ranks] == ["tcp://10.0.0.1:5557", "tcp://10.0.0.1:5558"]
    assert [r.replay_url for r in ranks] == ["tcp://10.0.0.1:5558", "tcp://10.0.0.1:5559"]


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"labels": {"llm-d.ai/role": "encode"}}, 'llm-d.ai/role is "encode"; known: prefill'),
        ({"annotations": {"vicinal/port": "x"}}, 'vicinal/port is "x"; expected a number from 1 to 65535'),
        ({"annotations": {"vicinal/port": "0"}}, "vicinal/port"),
        ({"annotations": {"vicinal/kv-blocks": "-1"}}, "vicinal/kv-blocks"),
        ({"annotations": {"vicinal/data-parallel-ranks": "1000"}}, "from 0 to 256"),
        ({"annotations": {"vicinal/port": "9" * 5000}}, "vicinal/port"),
    ],
)
def test_what_cannot_be_is_named(said: dict[str, dict[str, str]], names: str) -> None:
    with pytest.raises(NoEngineError, match=names):
        one(**said)


def book() -> tuple[PodBook, list[str]]:
    complaints: list[str] = []
    return PodBook(DEFAULTS, lambda name, text: complaints.append(f"{name}: {text}")), complaints


def names(of: PodBook) -> list[str]:
    return [seen.name for seen in of.sightings({})]


def test_readiness_makes_an_engine_and_does_not_unmake_it() -> None:
    b, _ = book()
    b.listed([pod("a", ready=False), pod("b")], "5")
    assert names(b) == ["b"]
    b.happened("MODIFIED", pod("a"))
    b.happened("MODIFIED", pod("b", ready=False))
    assert names(b) == ["a", "b"]
    b.listed([pod("a"), pod("b", ready=False), pod("c", ready=False)], "9")
    assert names(b) == ["a", "b"]
    b.happened("MODIFIED", pod("a", ending=True))
    assert names(b) == ["b"]
    b.happened("MODIFIED", pod("b", phase="Failed"))
    b.happened("MODIFIED", pod("b", ready=False))
    assert names(b) == []


def test_a_pod_that_comes_again_under_its_name_is_another() -> None:
    b, _ = book()
    b.listed([pod("a", "life-1")], "5")
    b.happened("MODIFIED", pod("a", "life-2", ready=False))
    assert names(b) == []


def test_bookmarks_and_events_move_the_version_and_errors_ask_for_a_list() -> None:
    b, complaints = book()
    b.listed([], "5")
    b.happened("BOOKMARK", {"metadata": {"resourceVersion": "8"}})
    assert b.resource_version == "8"
    b.happened("SOMETHING_NEW", {"metadata": {"resourceVersion": "9"}})
    assert b.resource_version == "8"
    with pytest.raises(ListAgainError, match="410: too old"):
        b.happened("ERROR", {"code": 410, "message": "too old"})
    with pytest.raises(ListAgainError, match="no code"):
        b.happened("ERROR", None)
    with pytest.raises(ListAgainError, match="no pod"):
        b.happened("ADDED", {"metadata": 3})
    assert len(complaints) == 1


_pods = st.builds(
    lambda name, life, ready, ending, phase, ip: pod(
        name, f"{name}-{life}", ready=ready, ending=ending, phase=phase, ip=ip
    ),
    st.sampled_from("abc"),
    st.integers(0, 1),
    st.booleans(),
    st.sampled_from([False, False, True]),
    st.sampled_from(["Running", "Running", "Pending", "Succeeded"]),
    st.sampled_from(["10.0.0.1", "10.0.0.1", ""]),
)


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(["put", "put", "delete", "list"]), _pods), max_size=30))
def test_the_book_is_what_the_cluster_is(actions: list[tuple[str, dict[str, object]]]) -> None:
    """Against a naive reader that remembers every state that each life of a pod was in."""
    b, _ = book()
    b.listed([], "0")
    cluster: dict[str, dict] = {}  # type: ignore[type-arg]
    engines: set[str] = set()  # lives that were ready since they were last not there
    for action, item in actions:
        name = item["metadata"]["name"]  # type: ignore[index]
        if action == "put":
            cluster[name] = item
            b.happened("MODIFIED", item)
        elif action == "delete":
            if name in cluster:
                b.happened("DELETED", cluster.pop(name))
        else:
            b.listed(list(cluster.values()), "1")
        alive = {}
        for each in cluster.values():
            status, metadata = each["status"], each["metadata"]
            there = status["podIP"] and status["phase"] not in ("Succeeded", "Failed")
            if there and "deletionTimestamp" not in metadata:
                alive[metadata["uid"]] = status["conditions"][0]["status"] == "True"
        engines = {uid for uid, ready in alive.items() if ready or uid in engines}
        assert {seen.uid for seen in b.sightings({})} == engines


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["metadata", "status", "spec", "labels", "annotations", "name", "conditions", "podIP"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "X"]),
)
def test_whatever_an_event_holds_the_book_stands(item: object, kind: str) -> None:
    b, _ = book()
    b.listed([item, pod("a")], "1")
    with contextlib.suppress(ListAgainError):
        b.happened(kind, item)
    assert "a" in names(b)
