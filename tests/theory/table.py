"""The table of docs/simulator.md, "Against theory": `python -m tests.theory.table` prints it as Markdown."""

from collections.abc import Sequence

from tests.theory import balancing, caches, queueing
from tests.theory.rows import Case

CASES: Sequence[Case] = (*queueing.CASES, *balancing.CASES, *caches.CASES)


def main() -> None:
    print("| Case | Theory | Simulated | Interval | Requests |")
    print("|---|---|---|---|---|")
    for case in CASES:
        row = case.measure()
        low, high = row.simulated.interval
        figures = f"{row.theory:.4f} | {row.simulated.mean:.4f} | {low:.4f} to {high:.4f} | {row.requests:,}"
        print(f"| {case.name} | {figures} |", flush=True)


if __name__ == "__main__":
    main()
