"""Agents that call tools in a loop: a long prompt that all calls of a kind share, many short turns, short gaps.

An agent opens with the system and tool prompt of its kind (Zipf) and a task; each further call repeats all that was
said and adds what the tool gave. The loop is closed: a tool is called when the answer is there.

Figures. Mooncake's tool-and-agent trace (Qin et al., FAST'25): 23,608 requests in an hour (6.56 requests/s), 8,596
prompt and 182 output tokens on average. In the 1,000 first requests of its older release the two largest families of
tool calls share 12 and 5 blocks of 512 tokens (6,144 and 2,560) and stand 70 to 30: `agent_prompts_tokens`. 69 sessions
of public agents (miniswe, magagent, taubench; 1,566 calls): 4 to 43 calls a session, 22.7 on average; miniswe adds 26
tokens a call (median; the logarithm's standard deviation is 1.8) and answers 98 (median), 1.1 s from call to call.
With the defaults here a session has 22.5 calls, a prompt 8,800 tokens (p95 14,800), an answer 182, and 97 % of the
prompts' tokens were in a prompt before. That is like the 93 % within a session of miniswe, and more than the 59 % that
Mooncake reports for its trace, where most of what is not shared is asked once. Agents that drop part of their history
(magagent) are not modelled.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError, at_least
from vicinal.workload.dialogue import dialogue
from vicinal.workload.lengths import Lengths, Lognormal, draw_tokens, zipf
from vicinal.workload.prompt import Piece, Vocabulary
from vicinal.workload.sessions import Session, closed_loop
from vicinal.workload.streams import own_streams, shared_stream
from vicinal.workload.times import ended, renewals_s


@dataclass(frozen=True, slots=True)
class Shape:
    """A session has between `calls_least` and `calls_most` calls, evenly; it ends early at `prompt_tokens_max`.

    The tenant is the agent's kind.
    """

    agent_prompts_tokens: tuple[int, ...] = (6144, 2560)
    calls_least: int = 4
    calls_most: int = 41
    task_tokens: Lengths = Lognormal(250.0, 0.8, 4_096)
    tool_tokens: Lengths = Lognormal(26.0, 1.5, 8_192)
    output_tokens: Lengths = Lognormal(98.0, 1.11, 4_096)
    gap_s: Lengths = Lognormal(1.1, 0.9, 60.0)
    prompt_tokens_max: int = 131_072

    def __post_init__(self) -> None:
        at_least(1, agent_prompts_tokens=min(self.agent_prompts_tokens, default=0), calls_least=self.calls_least)
        at_least(self.calls_least, calls_most=self.calls_most)
        if self.prompt_tokens_max <= max(self.agent_prompts_tokens):
            raise ParameterError(
                f"prompt_tokens_max={self.prompt_tokens_max} leaves no room beside a prompt of "
                f"{max(self.agent_prompts_tokens)} tokens"
            )


def tool_agent(
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float = 6.56,
    shape: Shape | None = None,
) -> Iterator[Arrival]:
    """One arrival per session, its other calls in `later`; `count` counts calls, `rate` is in calls per second.

    `rate` sets how often sessions start; how fast one goes on is its own affair. Sessions start as a Poisson process.
    """
    return ended(_arrivals(vocabulary, seed, rate, shape or Shape()), count=count, duration_s=duration_s)


def _arrivals(vocabulary: Vocabulary, seed: int, rate: float, shape: Shape) -> Iterator[Arrival]:
    calls_mean = (shape.calls_least + shape.calls_most) / 2
    starts_s = renewals_s(np.random.default_rng([seed, 0]), rate / calls_mean)
    return closed_loop(_sessions(vocabulary, seed, shape, starts_s))


def _sessions(vocabulary: Vocabulary, seed: int, shape: Shape, starts_s: Iterator[float]) -> Iterator[Session]:
    agents = [Piece(shared_stream(seed, kind), tokens) for kind, tokens in enumerate(shape.agent_prompts_tokens)]
    draw_agent = zipf(len(agents))
    for number, start_s in enumerate(starts_s):
        stream = np.random.default_rng([seed, 1, number])
        agent = draw_agent(stream)
        room = shape.prompt_tokens_max - agents[agent].tokens
        said = _said(shape, stream, room)
        turns = dialogue(agents[agent], said, own_streams(seed, number), vocabulary, shape.prompt_tokens_max)
        yield Session(start_s, f"session-{number}", f"agent-{agent}", turns)


def _said(shape: Shape, stream: np.random.Generator, room_tokens: int) -> Iterator[tuple[float, int, int]]:
    calls = int(stream.integers(shape.calls_least, shape.calls_most, endpoint=True))
    task_tokens = min(room_tokens, draw_tokens(shape.task_tokens, stream))
    yield 0.0, task_tokens, draw_tokens(shape.output_tokens, stream)
    for _ in range(calls - 1):
        gap_s = shape.gap_s.draw(stream)
        yield gap_s, draw_tokens(shape.tool_tokens, stream), draw_tokens(shape.output_tokens, stream)
