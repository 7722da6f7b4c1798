"""Memory and descriptors of processes with all that they started, from /proc, and how they grow."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """`rss_mib` and `descriptors` of all processes together."""

    at_s: float
    rss_mib: float
    descriptors: int
    processes: int


def family(pids: Sequence[int]) -> list[int]:
    """These processes and their descendants that live."""
    found: list[int] = []
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid in found:
            continue
        try:
            children = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
        except OSError:
            continue
        if Path(f"/proc/{pid}").exists():
            found.append(pid)
        waiting += [int(word) for text in children for word in text.split()]
    return sorted(found)


def sample(pids: Sequence[int], at_s: float) -> Sample:
    rss_kib, descriptors, living = 0, 0, 0
    for pid in family(pids):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
            descriptors += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
        living += 1
        rss_kib += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:"))
    return Sample(at_s, rss_kib / 1024, descriptors, living)


def slopes_per_hour(samples: Sequence[Sample]) -> tuple[float, float] | None:
    """MiB and descriptors per hour, by least squares over the second half. None for fewer than four samples."""
    half = samples[len(samples) // 2 :]
    if len(half) < 4:
        return None
    hours = [each.at_s / 3600.0 for each in half]
    return _slope(hours, [each.rss_mib for each in half]), _slope(hours, [float(each.descriptors) for each in half])


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Of the line with the least squares."""
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True)) / sum((a - x_mean) ** 2 for a in x)
