"""All paths between a set of sources and a set of targets as arrays, so that thousands of pairs are priced at once.

`links[k, i, j]` is the k-th link of the path from source i to target j; short paths are padded with the position one
past the last link, a link that nothing loads. `common_to[j]` lists the links that *every* path to target j loads (in a
tree: its receiving interface), `common_from[i]` those of every path from source i: they bound a transfer from below
without looking at the pair. An endpoint that is both source and target does not send to itself (that is a local plan):
the latency of such a pair is infinite.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.topology.graph import Level, Topology


@dataclass(frozen=True, slots=True)
class PathTable:
    """Shapes: links (L, P, D) int32; latency_s, level and distinct (P, D); common_from (K, P); common_to (K, D)."""

    sources: NDArray[np.intp]
    targets: NDArray[np.intp]
    links: NDArray[np.int32]
    latency_s: NDArray[np.float64]
    level: NDArray[np.int8]
    distinct: NDArray[np.bool_]
    common_from: NDArray[np.int32]
    common_to: NDArray[np.int32]


def path_table(topology: Topology, sources: Sequence[int], targets: Sequence[int]) -> PathTable:
    """Look up every path once. Costs one `Topology.path` per pair, so it is made when the fleet changes."""
    paths = [[topology.path(source, target) for target in targets] for source in sources]
    nothing = len(topology.links)
    width = max((len(path.links) for row in paths for path in row), default=1) or 1
    links = np.full((width, len(sources), len(targets)), nothing, dtype=np.int32)
    for i, row in enumerate(paths):
        for j, path in enumerate(row):
            links[: len(path.links), i, j] = path.links
    return PathTable(
        sources=np.array(sources, dtype=np.intp),
        targets=np.array(targets, dtype=np.intp),
        links=links,
        latency_s=np.array(
            [[np.inf if p.level is Level.DEVICE else p.latency_s for p in row] for row in paths], dtype=np.float64
        ).reshape(len(sources), len(targets)),
        level=np.array([[p.level for p in row] for row in paths], dtype=np.int8).reshape(len(sources), len(targets)),
        distinct=np.array(sources, dtype=np.intp)[:, None] != np.array(targets, dtype=np.intp),
        common_from=_padded([_common([p.links for p in row if p.level is not Level.DEVICE]) for row in paths], nothing),
        common_to=_padded(
            [_common([row[j].links for row in paths if row[j].level is not Level.DEVICE]) for j in range(len(targets))],
            nothing,
        ),
    )


def _common(paths: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Links in all of `paths`; none when there is no path at all."""
    if not paths:
        return ()
    return tuple(sorted(set(paths[0]).intersection(*paths[1:])))


def _padded(rows: Sequence[tuple[int, ...]], fill: int) -> NDArray[np.int32]:
    width = max((len(row) for row in rows), default=1) or 1
    table = np.full((width, len(rows)), fill, dtype=np.int32)
    for i, row in enumerate(rows):
        table[: len(row), i] = row
    return table
