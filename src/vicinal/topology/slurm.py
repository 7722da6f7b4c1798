"""Places from Slurm's `topology.conf`, as its plugin topology/tree reads it.

    SwitchName=leaf1 Nodes=h[1-8]
    SwitchName=leaf2 Nodes=h[9-16]
    SwitchName=spine1 Switches=leaf[1-2]

A line is one switch with either nodes or switches below it. A host's leaf is the switch with the host in its nodes, its
pod the switch above that, and its site the topmost switch, if that is yet another one: levels between pod and site make
no difference to what a transfer costs here. A switch that nothing is above leaves what is above it Unknown.

Parameters may have any case, `#` begins a comment, a `\\` at the end of a line continues it, and names of hosts and
switches may be hostlists (hostlist.py). `LinkSpeed` is allowed and, as in Slurm, means nothing.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches

from vicinal.domain.endpoint import Placement
from vicinal.topology.hostlist import expand
from vicinal.topology.placefile import BadLine, PlaceFileError, Places

_PAIR = re.compile(r'\s*([A-Za-z]+)\s*=\s*(?:"([^"]*)"|([^\s"]+))(?=\s|$)')
_KEYS = ("switchname", "nodes", "switches", "linkspeed")
_EXPECTED = "expected SwitchName=NAME Nodes=HOSTS or SwitchName=NAME Switches=SWITCHES"


@dataclass(slots=True)
class _Switch:
    name: str
    line: int
    nodes: list[str] = field(default_factory=list)
    switches: list[str] = field(default_factory=list)
    above: "_Switch | None" = None


def slurm_places(text: str) -> Places:
    """Every host of the file. Raises PlaceFileError with all lines that are wrong, or else all that fit no tree."""
    bad: list[BadLine] = []
    switches: dict[str, _Switch] = {}
    for line, words in _lines(text):
        try:
            switch = _switch(line, words)
            if (same := switches.get(switch.name)) is not None:
                raise ValueError(f"switch {switch.name} is on line {same.line} already")
            switches[switch.name] = switch
        except ValueError as error:
            bad.append(BadLine(line, str(error)))
    if not bad:
        bad = [*_join(switches), *_circles(switches)]
    if not bad:
        places, bad = _places(switches)
        if not bad:
            return places
    raise PlaceFileError(bad)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with something on them, continuations joined, by the number of the first."""
    started, before = 0, ""
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.partition("#")[0].rstrip()
        started = started or number
        if line.endswith("\\"):
            before += f"{line[:-1]} "
            continue
        if whole := (before + line).strip():
            yield started, whole
        started, before = 0, ""
    if before.strip():
        yield started, before.strip()


def _switch(line: int, words: str) -> _Switch:
    values: dict[str, str] = {}
    at = 0
    while at < len(words):
        pair = _PAIR.match(words, at)
        if pair is None:
            raise ValueError(f'"{words[at:].strip()}" is no KEY=VALUE; {_EXPECTED}')
        key = pair[1].lower()
        if key not in _KEYS:
            hint = "; topology/block is not read" if key.startswith("block") else ""
            raise ValueError(f'unknown parameter "{pair[1]}"; {_EXPECTED}{hint}')
        if key in values:
            raise ValueError(f"{pair[1]} is said twice")
        values[key] = pair[2] if pair[2] is not None else pair[3]
        at = pair.end()
    name = values.get("switchname")
    if not name or ("nodes" in values) == ("switches" in values):
        raise ValueError(f'"{words}" is no switch; {_EXPECTED}')
    nodes, switches = (expand(values[key]) if key in values else [] for key in ("nodes", "switches"))
    return _Switch(name, line, nodes, switches)


def _join(switches: dict[str, _Switch]) -> Iterator[BadLine]:
    """Tell each switch what is above it."""
    for switch in switches.values():
        for name in switch.switches:
            below = switches.get(name)
            if below is None:
                near = get_close_matches(name, switches, n=1)
                yield BadLine(
                    switch.line, f"no line has SwitchName={name}{f'; did you mean {near[0]}?' if near else ''}"
                )
            elif below.above is not None:
                yield BadLine(
                    switch.line, f"switch {name} is below {below.above.name} (line {below.above.line}) already"
                )
            else:
                below.above = switch


def _circles(switches: dict[str, _Switch]) -> Iterator[BadLine]:
    for switch in switches.values():
        above = switch.above
        for _ in switches:
            above = above.above if above is not None and above is not switch else above
        if above is switch:
            yield BadLine(switch.line, f"switch {switch.name} is above itself")


def _places(switches: dict[str, _Switch]) -> tuple[Places, list[BadLine]]:
    places: dict[str, Placement] = {}
    bad: list[BadLine] = []
    for switch in switches.values():
        pod = top = switch.above
        while top is not None and top.above is not None:
            top = top.above
        site = top.name if top is not None and top is not pod else ""
        for host in switch.nodes:
            if host in places:
                bad.append(BadLine(switch.line, f"host {host} is under switch {places[host].leaf} already"))
            places[host] = Placement(host, switch.name, pod.name if pod is not None else "", site)
    return places, bad
