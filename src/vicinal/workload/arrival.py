"""One request of a workload, and the turns of its session that follow it."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from vicinal.workload.prompt import Literal, Piece, Prompt, TokenIds


@dataclass(frozen=True, slots=True)
class Turn:
    """A request that is sent `pause_s` after the answer to the turn before it: a closed loop."""

    pause_s: float
    prompt: Prompt
    output_tokens: int
    answer: Piece | Literal | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that arrives `at_s` seconds of model time after the start and wants `output_tokens`, no fewer.

    `session` names the conversation that it is a turn of, `tenant` who sends it, `model` whom it asks, `service` its
    kind; None where the workload does not say. `answer` is what the model is going to say, where a later prompt repeats
    it; None when nobody does. `later` are the turns of a session that wait for this answer, in order.
    """

    at_s: float
    prompt: Prompt
    output_tokens: int
    session: str | None = None
    tenant: str | None = None
    model: str | None = None
    service: str | None = None
    priority: int = 0
    answer: Piece | Literal | None = None
    later: tuple[Turn, ...] = ()

    @property
    def prompt_tokens(self) -> int:
        return self.prompt.tokens

    @property
    def prompt_token_ids(self) -> TokenIds:
        """The prompt, shape (prompt_tokens,); made at each call, so ask once per request."""
        return self.prompt.token_ids()

    def following(self, answered_s: float) -> "Arrival | None":
        """The next turn of this session, if there is one, when this one's answer is complete at `answered_s`."""
        if not self.later:
            return None
        turn, *rest = self.later
        return replace(
            self,
            at_s=answered_s + turn.pause_s,
            prompt=turn.prompt,
            output_tokens=turn.output_tokens,
            answer=turn.answer,
            later=tuple(rest),
        )


def requests(arrivals: Iterable[Arrival]) -> int:
    """How many requests a workload has, with those that wait for an answer."""
    return sum(1 + len(arrival.later) for arrival in arrivals)
