"""Two models with loads of their own: a chat model and a smaller share for one that reasons at length.

Nothing is shared. Figures of ServeGen (arXiv 2505.09999): its m-large has prompts of 1,341 tokens on average and
answers of 156 (median 45, p95 587); its deepseek-r1 prompts of 1,058 (p95 3,276) and answers of 728 (p95 1,580). The
shares are chosen, and so are the names: a run needs models of these names, or other names here.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError, at_least, share
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens
from vicinal.workload.prompt import Piece, Prompt, Vocabulary
from vicinal.workload.streams import own_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """`second_share` of the requests ask the second model. `cv` is of the gaps between the requests of each."""

    first_model: str = "chat"
    first_prompt_tokens: Lengths = Lognormal(935.0, 0.85, 32_768)
    first_output_tokens: Lengths = Lognormal(45.0, 1.58, 16_384)
    second_model: str = "reasoning"
    second_prompt_tokens: Lengths = Lognormal(656.0, 0.977, 32_768)
    second_output_tokens: Lengths = Lognormal(619.0, 0.57, 16_384)
    second_share: float = 0.25
    cv: float = 1.0

    def __post_init__(self) -> None:
        share(second_share=self.second_share)
        at_least(0, cv=self.cv)
        if self.first_model == self.second_model:
            raise ParameterError(f"first_model and second_model are both {self.first_model!r}")


def two_models(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 10.0,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """Requests of both models, `rate` of them a second; no sessions and no tenants."""
    shape = shape or Shape()
    models = (
        (shape.first_model, shape.first_prompt_tokens, shape.first_output_tokens, 1 - shape.second_share),
        (shape.second_model, shape.second_prompt_tokens, shape.second_output_tokens, shape.second_share),
    )
    sources = [
        _requests(
            vocabulary,
            seed,
            which,
            model,
            prompt_tokens,
            output_tokens,
            renewals_s(np.random.default_rng([seed, 0, which]), rate * part, shape.cv),
        )
        for which, (model, prompt_tokens, output_tokens, part) in enumerate(models)
        if part
    ]
    return ended(heapq.merge(*sources, key=lambda arrival: arrival.at_s), count=count, duration_s=duration_s)


def _requests(
    vocabulary: Vocabulary,
    seed: int,
    which: int,
    model: str,
    prompt_tokens: Lengths,
    output_tokens: Lengths,
    times_s: Iterator[float],
) -> Iterator[Arrival]:
    stream = np.random.default_rng([seed, 1, which])
    for number, at_s in enumerate(times_s):
        text = Piece(own_stream(seed, 2 * number + which), draw_tokens(prompt_tokens, stream))
        yield Arrival(at_s, Prompt((text,), vocabulary), draw_tokens(output_tokens, stream), model=model)
