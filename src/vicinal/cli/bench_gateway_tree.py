"""CPU seconds of a process with all that it started, as Linux counts them in /proc."""

import os
from pathlib import Path

_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")


def tree_cpu_s(root: int) -> float:
    """User and system seconds of `root`, of its descendants, and of those among them that have ended.

    A process counts the children that it has waited for, with theirs; so do the living ones here. Raises
    ProcessLookupError when `root` is no more.
    """
    known: dict[int, tuple[int, float]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                text = Path(entry.path, "stat").read_text()
            except OSError:  # ended meanwhile: its parent has its seconds
                continue
            fields = text.rpartition(")")[2].split()  # the name before may hold anything, also spaces
            known[int(entry.name)] = int(fields[1]), _TICK_S * sum(map(int, fields[11:15]))
    if root not in known:
        raise ProcessLookupError(f"process {root} has ended")
    total, members = 0.0, [root]
    while members:
        member = members.pop()
        total += known[member][1]
        members += [pid for pid, (parent, _) in known.items() if parent == member]
    return total
