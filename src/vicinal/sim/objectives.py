"""Whether a request was served well: both its first token and the pace of the rest within what its kind wants."""

from collections.abc import Callable
from dataclasses import dataclass

from vicinal.domain.request import ServiceClass


@dataclass(frozen=True, slots=True)
class Objectives:
    """`unloaded_ttft_s` is that of a prompt of so many tokens, alone on the fastest endpoint."""

    unloaded_ttft_s: Callable[[int], float]

    def met(self, service: ServiceClass, prompt_tokens: int, ttft_s: float, tpot_s: float | None) -> bool:
        """An answer of one token meets any TPOT."""
        objective_s = service.ttft_objective_s(self.unloaded_ttft_s(prompt_tokens))
        return ttft_s <= objective_s and (tpot_s is None or tpot_s <= service.tpot_objective_s)
