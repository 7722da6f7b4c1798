"""Many groups of users, each group with one long prefix: llm-d's benchmark of cache-aware routing.

Source: "KV-Cache Wins You Can See" (llm-d.ai) and the `shared_prefix` data of kubernetes-sigs/inference-perf that it
runs: 150 groups, each with its own prefix of 6,000 tokens; 5 prompts per group, a question of 1,200 tokens each; 1,000
output tokens; 3 to 60 requests/s against 8 engines. The 750 prompts are shuffled once and sent round and round, so a
question comes again after 750 requests: together they are 1.8 million tokens of KV, 73 % of what those engines hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import at_least
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream, shared_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """`cv` is the coefficient of variation of the gaps between requests: 1 is Poisson, 0 evenly spaced."""

    groups: int = 150
    users: int = 5
    prefix_tokens: int = 6000
    question_tokens: int = 1200
    output_tokens: int = 1000
    cv: float = 1.0

    def __post_init__(self) -> None:
        at_least(1, groups=self.groups, users=self.users, prefix_tokens=self.prefix_tokens)
        at_least(1, question_tokens=self.question_tokens, output_tokens=self.output_tokens)


def shared_system_prompts(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 20.0,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Requests of all users in turn, in one shuffled order; the tenant is the group, the session the user."""
    shape = shape or Shape()
    times_s = renewals_s(np.random.default_rng([seed, 0]), rate, shape.cv)
    return ended(_arrivals(vocabulary, seed, shape, times_s), count=count, duration_s=duration_s)


def _arrivals(vocabulary: Vocabulary, seed: int, shape: Shape, times_s: Iterator[float]) -> Iterator[Arrival]:
    order = np.random.default_rng([seed, 1]).permutation(shape.groups * shape.users)
    for number, at_s in enumerate(times_s):
        user = int(order[number % len(order)])
        group = user // shape.users
        prefix = Piece(shared_stream(seed, group), shape.prefix_tokens)
        prompt = Prompt((prefix, Piece(own_stream(seed, user), shape.question_tokens)), vocabulary)
        yield Arrival(at_s, prompt, shape.output_tokens, f"user-{user}", f"group-{group}")
