"""How the scheduler is set up: plain numbers, in one place."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerSettings:
    """`attempts_max` counts the first. A held request is refused after `hold_s_max`; at most `held_max` are held.

    `retry_after_s` is what a refused client is told, spread by up to as much again so that they do not return at once.
    """

    attempts_max: int = 3
    hold_s_max: float = 30.0
    held_max: int = 4096
    retry_after_s: float = 1.0
    local_prefill: bool = True
