"""Engines count prompt tokens too, in every answer. Another count than ours means that one of us tokenises otherwise.

That is the cheapest check there is, so it is made for every request; what to do about it is somebody else's.
"""

from collections.abc import Callable

from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.parse import ParsedRequest


class PromptCounts:
    """Compares counts of prompts that were tokenised here. `drifted` is called for each that differs."""

    def __init__(self, counters: GatewayCounters, drifted: Callable[[], None] = lambda: None) -> None:
        self.drifted = drifted
        self._counters = counters

    def compare(self, parsed: ParsedRequest, prompt_tokens: int | None) -> None:
        """`prompt_tokens` is the engine's; None when it does not say."""
        if prompt_tokens is None or parsed.tokenised is None or prompt_tokens == parsed.request.prompt_tokens:
            return
        self._counters.token_counts_differ += 1
        self.drifted()
