"""`fcfs`: first come, first served."""

from dataclasses import dataclass

from vicinal.contracts.flow import Waiting


@dataclass(frozen=True, slots=True)
class FirstCome:
    def key(self, waiting: Waiting) -> float:
        return waiting.since_s
