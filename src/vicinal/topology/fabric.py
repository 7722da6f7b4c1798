"""A network of parallel links: rails and spines, of which each flow takes one by a hash.

A tree (topology/tree.py) says what a level can carry in all; that is what the scheduler believes in. A fabric is the
same tree with its links taken apart:

- An endpoint's interface is `rails` interfaces. Rail k of every endpoint under a leaf hangs on rail-leaf k of it, so
  that a leaf is one switch per rail (a *rail group*; with one rail, a rack). A transfer is striped over all rails in
  equal parts and is over with the last of them. A stripe stays on its rail: leaving the rail group crosses the spine.
- A leaf's uplink is, per rail, one link to each of `spines` spines; a pod's uplink likewise one per spine and rail, as
  in a fat tree, where each spine has cores of its own. A stripe takes one spine all the way, by a hash of the flow
  (ECMP). Nothing evens the hash out: two flows on one spine share it while another is idle.

So links of one name carry together what the tree's link carries, and a lone transfer is slower than the tree promises
exactly where one uplink is narrower than its part of an interface. With one rail and one spine a fabric is its tree.
"""

from dataclasses import dataclass

from xxhash import xxh3_64_intdigest

from vicinal.domain.ids import LinkId
from vicinal.topology.graph import Level, Link, Route, Topology


@dataclass(frozen=True, slots=True)
class Parallel:
    """How many links lie in parallel where the tree has one. `seed` chooses among hashes of flows."""

    rails: int = 1
    spines: int = 1
    seed: int = 0


class Fabric:
    """A `Routing` made from a tree; see the module. Link `name` of the tree becomes `name/rail/spine` here.

    A part of the name whose number is 1 is left out, and a host's internal link stays whole.
    """

    def __init__(self, tree: Topology, parallel: Parallel) -> None:
        if parallel.rails < 1 or parallel.spines < 1:
            raise ValueError(
                f"a fabric has at least one rail and one spine, not {parallel.rails} and {parallel.spines}"
            )
        self._tree = tree
        self._parallel = parallel
        self.slots = tree.slots
        links: list[Link] = []
        self._parts: list[list[list[int]]] = []
        """By position in the tree: the position of each part here, by rail and spine."""
        for link in tree.links:
            rails = 1 if link.level is Level.HOST else parallel.rails
            spines = parallel.spines if link.level >= Level.POD else 1
            self._parts.append([])
            for rail in range(rails):
                self._parts[-1].append(list(range(len(links), len(links) + spines)))
                for spine in range(spines):
                    name = f"{link.id}{f'/{rail}' if rails > 1 else ''}{f'/{spine}' if spines > 1 else ''}"
                    links.append(Link(LinkId(name), link.bytes_per_s / (rails * spines), link.level))
        self.links = tuple(links)

    def route(self, source: int, target: int, flow: str) -> Route:
        """One stripe per rail; within a host one stripe in all. Each rail's switches hash for themselves."""
        path = self._tree.path(source, target)
        rails = 1 if path.level <= Level.HOST else self._parallel.rails
        name = flow.encode()
        stripes = []
        for rail in range(rails):
            spine = xxh3_64_intdigest(name, self._parallel.seed + rail) % self._parallel.spines
            parts = [self._parts[link][rail] for link in path.links]
            stripes.append(tuple(part[spine if len(part) > 1 else 0] for part in parts))
        return Route(tuple(stripes), path.latency_s, path.level)
