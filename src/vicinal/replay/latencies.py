"""How long each request of a run took, in model seconds, put together from client, engines and gateway."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vicinal.replay.answer import Answer, Fate
from vicinal.replay.stamps import Served, served
from vicinal.wire.stamps import Stamp


@dataclass(frozen=True, slots=True)
class Latency:
    """A completed request that engines have stamps of. `held_s` is how long it waited in the gateway's queue."""

    answer: Answer
    served: Served
    held_s: float

    @property
    def ttft_s(self) -> float | None:
        """The queue, and the engines' time to the first token of the attempt that answered, with what earlier attempts
        took."""
        return None if self.served.ttft_s is None else self.held_s + self.served.ttft_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None for an answer of one token."""
        return self.served.tpot_s

    @property
    def e2e_s(self) -> float | None:
        return None if self.served.e2e_s is None else self.held_s + self.served.e2e_s


def latencies(answers: Sequence[Answer], stamps: Iterable[Stamp], held_s: Mapping[str, float]) -> list[Latency]:
    """Those of the completed requests, in the order of `answers`. `held_s` has the held ones by request."""
    legs = served((answer.request_id for answer in answers), stamps)
    return [
        Latency(answer, legs[answer.request_id], held_s.get(answer.request_id, 0.0))
        for answer in answers
        if answer.fate is Fate.COMPLETED and answer.request_id in legs
    ]
