"""What tests of made workloads ask of them: every request, what was seen before, how far a mean may be off."""

from collections.abc import Iterable, Iterator

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.content import block_names
from vicinal.workload.prompt import Vocabulary

VOCABULARY = Vocabulary(5, 1024)
BLOCK_TOKENS = 16


def every_turn(arrivals: Iterable[Arrival]) -> Iterator[Arrival]:
    """All requests, those of closed loops as if answers took no time; one session after the other."""
    for arrival in arrivals:
        turn: Arrival | None = arrival
        while turn is not None:
            yield turn
            turn = turn.following(turn.at_s)


def names(arrival: Arrival) -> list[int]:
    return block_names(arrival.prompt.pieces, BLOCK_TOKENS)


def seen_share(arrivals: Iterable[Arrival]) -> float:
    """The share of full blocks of the prompts that an earlier prompt had: the hits of a cache without end."""
    seen: set[int] = set()
    hits = total = 0
    for arrival in arrivals:
        blocks = names(arrival)
        hits += sum(block in seen for block in blocks)
        total += len(blocks)
        seen.update(blocks)
    return hits / total


def mean_is(values: list[float] | list[int], claimed: float, rounding: float = 0.01) -> bool:
    """Whether a sample's mean is within five standard errors of what is claimed, and its rounding."""
    error = np.std(values) / np.sqrt(len(values))
    return abs(np.mean(values) - claimed) <= 5 * error + rounding * claimed
