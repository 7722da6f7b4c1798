"""Tables and figures of the documents that can be computed are what the code gives."""

import re
from statistics import median_low

import numpy as np

from tests.docs.documents import ROOT, read, table_rows
from vicinal.cluster.freshness import FreshnessRule
from vicinal.config.cluster import endpoints, tree_network
from vicinal.config.default import default_cluster
from vicinal.cost.table import GRID_CELLS_MAX
from vicinal.enginemodel.profiles import KV_BYTES_PER_TOKEN, NAMES, profile
from vicinal.topology.tree import tree_topology
from vicinal.workload.conversation import Shape, conversation
from vicinal.workload.prompt import Vocabulary


def test_the_profiles_are_all_there_with_their_figures() -> None:
    shown = {row[0].strip("`"): row[1:] for row in table_rows(read("docs/emulator.md")) if "-" in row[0][1:-1]}
    assert [name for name in shown if name in NAMES] == list(NAMES)
    for name in NAMES:
        fit = profile(name)
        expected = [
            f"{KV_BYTES_PER_TOKEN[name]:,}",
            f"{fit.prefill_base_s * 1e3:.2f}",
            f"{fit.prefill_s_per_token * 1e6:.2f}",
            f"{fit.prefill_s_per_pair * 1e9:.3f}",
            f"{fit.step_base_s * 1e3:.2f}",
            f"{fit.step_s_per_sequence * 1e6:.2f}",
            f"{fit.step_s_per_context_token * 1e9:.2f}",
        ]
        assert shown[name] == expected


def test_the_default_cluster_is_as_described() -> None:
    config = default_cluster()
    fleet = endpoints(config)
    links = {link.id: link.bytes_per_s for link in tree_topology(fleet, tree_network(config)).links}
    text = read("docs/emulator.md")
    assert f"of `{config.model.profile}`: 1.2 M tokens" in text
    assert {endpoint.kv_tokens for endpoint in fleet} == {1_200_000}
    assert {endpoint.host_blocks * endpoint.block_tokens for endpoint in fleet} == {4_000_000}
    assert {endpoint.host_bytes_per_s for endpoint in fleet} == {128e9}
    assert "4 M in host memory (1.3 TB, read at 128 GB/s)" in text
    assert {links[f"leaf/{leaf}/up"] for leaf in ("r1", "r2")} == {12.5e9}
    assert "8:1 (12.5 GB/s" in text


def test_the_exact_choice_is_as_described() -> None:
    assert f"Up to {GRID_CELLS_MAX:,} pairs all are priced." in read("docs/cost.md")


def test_freshness_is_as_described() -> None:
    rule = FreshnessRule()
    text = read("docs/stale-state.md")
    assert f"up to {rule.stale_heartbeats:.0f} heartbeats | fresh | {rule.margin_share:.0%}".replace("%", " %") in text
    assert f"up to {rule.unknown_heartbeats:.0f} heartbeats | stale" in text
    assert f"grows by {rule.margin_share_per_heartbeat:.0%} per heartbeat".replace("%", " %") in text


def test_the_conversation_workload_is_as_described() -> None:
    """The figures of the text are rounded; the workload of one seed is within a tenth of them."""
    text, shape = read("docs/workloads.md"), Shape()
    assert "about 6,000 tokens on average (p95 about 12,500), of which about 80 % were seen before" in text
    arrivals = list(conversation(Vocabulary(10, 1000), seed=0, count=3000))
    prompts = np.array([arrival.prompt_tokens for arrival in arrivals])
    assert np.isclose(prompts.mean(), 6000, rtol=0.1)
    assert np.isclose(np.percentile(prompts, 95), 12_500, rtol=0.1)
    warm_s = 120.0  # sessions begin one after the other, so the rate rises at first
    settled = [arrival for arrival in arrivals if arrival.at_s > warm_s]
    assert np.isclose(len(settled) / (arrivals[-1].at_s - warm_s), 6.0, rtol=0.1)
    assert np.isclose(_seen_share(arrivals), 0.8, atol=0.04)
    for tokens in shape.system_prompts_tokens:
        assert str(tokens) in text


def _seen_share(arrivals) -> float:
    """Share of prompt tokens that are a prefix of what was asked before."""
    seen: set[tuple[int, ...]] = set()
    known = total = 0
    for arrival in arrivals:
        streams: tuple[int, ...] = ()
        unbroken = True
        for piece in arrival.prompt.pieces:
            streams = (*streams, piece.stream)
            unbroken = unbroken and streams in seen
            seen.add(streams)
            known += piece.tokens if unbroken else 0
            total += piece.tokens
    return known / total


def test_sizes_in_architecture_are_true_and_files_are_small() -> None:
    lines = sorted(len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py"))
    said = re.search(r"(\d+) files, median (\d+), largest (\d+)", read("ARCHITECTURE.md").split("## Sizes")[1])
    assert said is not None
    files, middle, largest = map(int, said.groups())
    assert np.isclose(files, len(lines), rtol=0.1)
    assert np.isclose(middle, median_low(lines), rtol=0.1)
    assert np.isclose(largest, lines[-1], rtol=0.1)
    assert median_low(lines) < 120
    assert lines[-1] <= 400


def test_each_room_is_in_architecture() -> None:
    rooms = {path.parent.name for path in (ROOT / "src" / "vicinal").glob("*/__init__.py")}
    assert set(re.findall(r"^\| \[`(\w+)/`\]", read("ARCHITECTURE.md"), re.MULTILINE)) == rooms
    files = {path.stem for path in (ROOT / "src" / "vicinal").glob("[a-z]*.py")}
    assert set(re.findall(r"^\| \[`(\w+)`\]", read("ARCHITECTURE.md"), re.MULTILINE)) == files
    picture = read("docs/pictures/layers.svg")
    assert all(f">{room}<" in picture for room in rooms | files)
