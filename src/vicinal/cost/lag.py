"""What legs take beyond their prediction, whatever their path: sockets, parsing, a busy loop, an engine's overhead.

It is learned where nothing moves, on prefill legs, and taken off what a transfer seems to have taken. Otherwise a rush
of requests, which makes every leg late, would look like a slow fabric.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class LegLag:
    """An exponential mean over legs, never below zero."""

    gain: float = 0.1
    seconds: float = 0.0

    def observe(self, predicted_s: float, seen_s: float) -> None:
        self.seconds += self.gain * (max(0.0, seen_s - predicted_s) - self.seconds)
