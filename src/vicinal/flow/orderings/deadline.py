"""`deadline`: earliest deadline first. A deadline is when the first token is due by the request's objective."""

from dataclasses import dataclass

from vicinal.contracts.flow import Waiting


@dataclass(frozen=True, slots=True)
class EarliestDeadline:
    def key(self, waiting: Waiting) -> float:
        return waiting.due_s
