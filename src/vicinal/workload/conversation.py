"""A workload of conversations, made from a seed, for a cluster without a trace.

Sessions start as a Poisson process. A session opens with one of a few system prompts, chosen by Zipf's law, and has a
geometric number of turns. A turn's prompt is all that was said before, a stand-in for each answer (its true tokens are
the engine's and not known when stamps are made) and new text; after an answer comes a pause for reading and writing.
Lengths are lognormal, like those of the published traces. Stamps are open-loop: a slow answer delays no later turn.

Figures. Mooncake's conversation trace (Qin et al., FAST'25) has 12,035 prompt and 343 output tokens on average: the
default cluster's four prefill engines, half a second for each such prompt, saturate at 8 requests/s of it. Azure's 2023
conversation trace (Patel et al., Splitwise, ISCA'24; AzurePublicDataset) has 1,155 prompt (p95 4,083) and 211 output
tokens. The defaults lie between: outputs as in Azure's (median 129, mean 209), a document of some thousand tokens in
the first turn and short turns after it. So a prompt has 6,100 tokens (p95 12,700), of which 81 % were seen before, and
6.1 requests/s of model time load the default cluster's prefill engines to 8 % if all of that is reused, to 38 % if
nothing is. Their KV, 12 GB/s if all of it moved, is about one leaf's uplink (12.5 GB/s).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt, Vocabulary


@dataclass(frozen=True, slots=True)
class Lognormal:
    """Lengths or times with this median; `sigma` is the standard deviation of the logarithm. Cut off at `most`."""

    median: float
    sigma: float
    most: float

    def draw(self, stream: np.random.Generator) -> float:
        return min(self.most, float(stream.lognormal(math.log(self.median), self.sigma)))

    def draw_tokens(self, stream: np.random.Generator) -> int:
        return max(1, round(self.draw(stream)))


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of the workload; the module's docstring says where they come from. Times are model seconds.

    `answer_s_per_token` is how long a user is taken to watch an answer come, before the pause begins.
    """

    sessions_per_s: float = 1.5
    turns_mean: float = 4.0
    system_prompts_tokens: tuple[int, ...] = (2048, 1536, 1024, 1024, 768, 512)
    opening_tokens: Lognormal = Lognormal(2400.0, 0.8, 16_384)
    turn_tokens: Lognormal = Lognormal(160.0, 1.0, 4_096)
    output_tokens: Lognormal = Lognormal(129.0, 1.0, 2_048)
    pause_s: Lognormal = Lognormal(6.0, 0.7, 60.0)
    answer_s_per_token: float = 0.015
    prompt_tokens_max: int = 32_768
    tenants: int = 4


def conversation(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    shape: Shape | None = None,
) -> list[Arrival]:
    """The first `count` requests, or those of the first `duration_s`, by time of arrival; whichever ends first.

    Equal arguments give equal workloads, and a longer one begins with the shorter one. Raises ValueError when neither
    end is given.
    """
    if count is None and duration_s is None:
        raise ValueError("say how long the workload is: count or duration_s")
    shape = shape or Shape()
    end_s = math.inf if duration_s is None else duration_s
    arrivals: list[Arrival] = []
    for number, start_s in enumerate(takewhile(lambda at: at < end_s, _starts_s(shape, seed))):
        if count is not None and len(arrivals) >= count:
            arrivals.sort(key=lambda arrival: arrival.at_s)
            if count == 0 or start_s > arrivals[count - 1].at_s:
                # No later session can bring a request before the last of the first `count`.
                break
        arrivals.extend(
            arrival for arrival in _session(shape, seed, number, start_s, vocabulary) if arrival.at_s < end_s
        )
    arrivals.sort(key=lambda arrival: arrival.at_s)
    return arrivals[:count]


def _starts_s(shape: Shape, seed: int) -> Iterator[float]:
    stream = np.random.default_rng([seed, 0])
    at_s = 0.0
    while True:
        yield at_s
        at_s += stream.exponential(1 / shape.sessions_per_s)


def _session(shape: Shape, seed: int, number: int, start_s: float, vocabulary: Vocabulary) -> Iterator[Arrival]:
    stream = np.random.default_rng([seed, 1, number])
    system = _zipf(len(shape.system_prompts_tokens), stream)
    tenant = _zipf(shape.tenants, stream)
    text_streams = _text_streams(seed, number)
    pieces = [Piece(_system_stream(seed, system), shape.system_prompts_tokens[system])]
    at_s = start_s
    for turn in range(int(stream.geometric(1 / shape.turns_mean))):
        said = shape.turn_tokens if turn else shape.opening_tokens
        pieces.append(Piece(next(text_streams), said.draw_tokens(stream)))
        prompt = Prompt(tuple(pieces), vocabulary)
        if prompt.tokens > shape.prompt_tokens_max:
            return
        output_tokens = shape.output_tokens.draw_tokens(stream)
        yield Arrival(at_s, prompt, output_tokens, f"session-{number}", f"tenant-{tenant}")
        pieces.append(Piece(next(text_streams), output_tokens))
        at_s += output_tokens * shape.answer_s_per_token + shape.pause_s.draw(stream)


def _zipf(kinds: int, stream: np.random.Generator) -> int:
    """A number below `kinds`; the k-th (from 1) with a probability proportional to 1/k."""
    weights = 1 / np.arange(1, kinds + 1)
    return int(stream.choice(kinds, p=weights / weights.sum()))


_STREAMS_PER_SEED = 1 << 48
_STREAMS_PER_SESSION = 1 << 16


def _system_stream(seed: int, system: int) -> int:
    return seed * _STREAMS_PER_SEED + system


def _text_streams(seed: int, session: int) -> Iterator[int]:
    """Streams of this session's texts: no other session of this seed or another has them, nor a system prompt."""
    first = seed * _STREAMS_PER_SEED + (session + 1) * _STREAMS_PER_SESSION
    yield from range(first, first + _STREAMS_PER_SESSION)
