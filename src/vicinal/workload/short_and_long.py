"""Short chats with a few very long prompts among them: what a long prefill does to those behind it.

Nothing is shared. Short requests are like Azure's 2023 conversation trace (Patel et al., Splitwise, ISCA'24;
AzurePublicDataset): 5.5 requests/s, prompts of 1,155 tokens on average (p95 4,083, longest 14,050), answers of 211.
Two in a hundred are long instead: in Mooncake's conversation trace (Qin et al., FAST'25) 2.1 % of the prompts have more
than 65,536 tokens, and the longest 126,195.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import at_least, share
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """`long_share` of the requests are long; the others are the same whatever it is, also in time."""

    long_share: float = 0.02
    short_tokens: Lengths = Lognormal(549.0, 1.22, 14_050)
    long_tokens: Lengths = Lognormal(81_920.0, 0.2, 126_195)
    output_tokens: Lengths = Lognormal(129.0, 1.0, 2_048)
    cv: float = 1.0

    def __post_init__(self) -> None:
        share(long_share=self.long_share)
        at_least(0, cv=self.cv)


def short_and_long(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 5.5,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Requests of both kinds; a session is one request, named `short-N` or `long-N`."""
    shape = shape or Shape()
    times_s = renewals_s(np.random.default_rng([seed, 0]), rate, shape.cv)
    return ended(_arrivals(vocabulary, seed, shape, times_s), count=count, duration_s=duration_s)


def _arrivals(vocabulary: Vocabulary, seed: int, shape: Shape, times_s: Iterator[float]) -> Iterator[Arrival]:
    kinds, lengths = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    for number, at_s in enumerate(times_s):
        # Both lengths are drawn each time, so that the short ones do not depend on how many are long.
        short_tokens, output_tokens = (
            draw_tokens(shape.short_tokens, lengths),
            draw_tokens(shape.output_tokens, lengths),
        )
        long_tokens = draw_tokens(shape.long_tokens, lengths)
        long = kinds.random() < shape.long_share
        prompt = Prompt((Piece(own_stream(seed, number), long_tokens if long else short_tokens),), vocabulary)
        yield Arrival(at_s, prompt, output_tokens, f"{'long' if long else 'short'}-{number}")
