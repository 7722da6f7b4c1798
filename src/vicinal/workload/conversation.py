"""A workload of conversations, made from a seed, for a cluster without a trace.

Sessions start as a Poisson process. A session opens with one of a few system prompts, chosen by Zipf's law, and has a
geometric number of turns. A turn's prompt is all that was said before, a stand-in for each answer (its true tokens are
the engine's and not known when stamps are made) and new text; after an answer comes a pause for reading and writing.
Lengths are lognormal, like those of the published traces. `conversation` is open-loop: a slow answer delays no later
turn. `conversation_closed` has the same sessions, and each turn waits for the answer before it.

Figures. Mooncake's conversation trace (Qin et al., FAST'25) has 12,035 prompt and 343 output tokens on average: the
default cluster's four prefill engines, half a second for each such prompt, saturate at 8 requests/s of it. Azure's 2023
conversation trace (Patel et al., Splitwise, ISCA'24; AzurePublicDataset) has 1,155 prompt (p95 4,083) and 211 output
tokens. The defaults lie between: outputs as in Azure's (median 129, mean 209), a document of some thousand tokens in
the first turn and short turns after it. So a prompt has 6,100 tokens (p95 12,700), of which 81 % were seen before, and
6.1 requests/s of model time load the default cluster's prefill engines to 8 % if all of that is reused, to 38 % if
nothing is. Their KV, 12 GB/s if all of it moved, is about one leaf's uplink (12.5 GB/s).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError, at_least, positive
from vicinal.workload.dialogue import dialogue
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens, zipf
from vicinal.workload.prompt import Piece, Vocabulary
from vicinal.workload.sessions import Session, closed_loop, open_loop
from vicinal.workload.streams import own_streams, shared_stream
from vicinal.workload.times import ended

_EMPTY_SESSIONS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    """The parameters of the workload; the module's docstring says where they come from. Times are model seconds.

    `answer_s_per_token` is how long a user is taken to watch an answer come, before the pause begins; a closed loop
    waits for the answer instead.
    """

    sessions_per_s: float = 1.5
    turns_mean: float = 4.0
    system_prompts_tokens: tuple[int, ...] = (2048, 1536, 1024, 1024, 768, 512)
    opening_tokens: Lengths = Lognormal(2400.0, 0.8, 16_384)
    turn_tokens: Lengths = Lognormal(160.0, 1.0, 4_096)
    output_tokens: Lengths = Lognormal(129.0, 1.0, 2_048)
    pause_s: Lengths = Lognormal(6.0, 0.7, 60.0)
    answer_s_per_token: float = 0.015
    prompt_tokens_max: int = 32_768
    tenants: int = 4

    def __post_init__(self) -> None:
        positive(sessions_per_s=self.sessions_per_s)
        at_least(1, turns_mean=self.turns_mean, prompt_tokens_max=self.prompt_tokens_max, tenants=self.tenants)
        at_least(1, system_prompts_tokens=min(self.system_prompts_tokens, default=0))
        at_least(0, answer_s_per_token=self.answer_s_per_token)


def conversation(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float | None = None,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """The first `count` requests, or those of the first `duration_s`, by time of arrival; whichever ends first.

    Equal arguments give equal workloads, and a longer one begins with the shorter one. `rate`, in requests per second,
    takes the place of `sessions_per_s`: the same sessions come closer together. Raises ValueError when neither end is
    given.
    """
    shape = shape or Shape()
    turns = open_loop(_sessions(shape, seed, rate, vocabulary), shape.answer_s_per_token)
    return ended(turns, count=count, duration_s=duration_s)


def conversation_closed(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float | None = None,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """The sessions of `conversation`, one arrival each: its other turns are `later` ones and are counted with it."""
    turns = closed_loop(_sessions(shape or Shape(), seed, rate, vocabulary))
    return ended(turns, count=count, duration_s=duration_s)


def _sessions(shape: Shape, seed: int, rate: float | None, vocabulary: Vocabulary) -> Iterator[Session]:
    if rate is not None:
        positive(rate=rate)
    return _made(shape, seed, shape.sessions_per_s if rate is None else rate / shape.turns_mean, vocabulary)


def _made(shape: Shape, seed: int, sessions_per_s: float, vocabulary: Vocabulary) -> Iterator[Session]:
    systems = [Piece(shared_stream(seed, n), tokens) for n, tokens in enumerate(shape.system_prompts_tokens)]
    draw_system, draw_tenant = zipf(len(systems)), zipf(shape.tenants)
    empty = 0
    for number, start_s in enumerate(_starts_s(sessions_per_s, seed)):
        stream = np.random.default_rng([seed, 1, number])
        system, tenant = systems[draw_system(stream)], draw_tenant(stream)
        said, streams = _said(shape, stream), own_streams(seed, number)
        turns = dialogue(system, said, streams, vocabulary, shape.prompt_tokens_max)
        if turns:
            yield Session(start_s, f"session-{number}", f"tenant-{tenant}", turns)
        empty = 0 if turns else empty + 1
        if empty == _EMPTY_SESSIONS_MAX:
            raise ParameterError(f"no first prompt fits prompt_tokens_max={shape.prompt_tokens_max}")


def _starts_s(sessions_per_s: float, seed: int) -> Iterator[float]:
    stream = np.random.default_rng([seed, 0])
    at_s = 0.0
    while True:
        yield at_s
        at_s += stream.exponential(1 / sessions_per_s)


def _said(shape: Shape, stream: np.random.Generator) -> Iterator[tuple[float, int, int]]:
    pause_s = 0.0
    for turn in range(int(stream.geometric(1 / shape.turns_mean))):
        new_tokens = draw_tokens(shape.turn_tokens if turn else shape.opening_tokens, stream)
        yield pause_s, new_tokens, draw_tokens(shape.output_tokens, stream)
        pause_s = shape.pause_s.draw(stream)
