"""Why predictions about an endpoint keep failing: suspicions that grow with evidence, and what to tell the operator.

One piece of evidence proves little: an event may be late, a request may be odd. So each suspicion has a share, an
exponential mean of what speaks for it (1) and against it (0). It is told when the share passes `TELL`, and may be told
again only after the share fell below `CURED`.
"""

from enum import StrEnum

from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId

GAIN = 0.1
TELL = 0.4
"""Five pieces of evidence in a row, or steadily two in five."""

CURED = 0.1


class Suspicion(StrEnum):
    """The kinds of the warnings. A certain one is told at its first evidence, and is cured as slowly as the others."""

    ENGINE_SILENT = "engine_silent"
    BLOCK_SIZE = "block_size"
    TOKENS_DIFFER_AT_START = "tokens_differ_at_start"
    TOKENS_DIFFER_LATER = "tokens_differ_later"
    NO_BLOCK_EVENTS = "no_block_events"
    REMOVALS_UNHEARD = "removals_unheard"
    NO_REUSE = "no_reuse"
    DECODE_PULLS_MORE = "decode_pulls_more"

    @property
    def certain(self) -> bool:
        return self is Suspicion.BLOCK_SIZE


_WORDS = {
    Suspicion.ENGINE_SILENT: (
        "does not say how many prompt tokens it reused where some should be, so that cannot be checked: start it with "
        "--enable-prompt-tokens-details (vLLM); some builds leave the figure out when it is zero"
    ),
    Suspicion.BLOCK_SIZE: (
        "reused {detail} tokens, which is no multiple of the configured block: its block size is another one; set "
        "block_tokens to what it runs with"
    ),
    Suspicion.TOKENS_DIFFER_AT_START: (
        "stores no block of the prompts that it gets from here as we hash them, from the first block on: its tokens or "
        "its extra keys are others. Likely: a BOS that one side adds, another chat template, a cache salt or LoRA set "
        "in front of the engine, or another tokenizer; compare model.tokenizer with what the engine loads"
    ),
    Suspicion.TOKENS_DIFFER_LATER: (
        "stores prompts as we hash them for the first {detail} blocks only: what follows is rendered differently. "
        "Likely: tools or later messages in its chat template; compare it with the one in model.tokenizer"
    ),
    Suspicion.NO_BLOCK_EVENTS: (
        "computed new blocks and no KV event came of it: its publisher is off, or events_url leads elsewhere; what it "
        "holds is unknown (vLLM: --kv-events-config with enable_kv_cache_events)"
    ),
    Suspicion.REMOVALS_UNHEARD: (
        "lacks blocks that it said it had, and no removal was heard: a gap in its KV events without replay_url, or a "
        "reset of its cache that it has not published yet (an idle engine publishes it with its next step)"
    ),
    Suspicion.NO_REUSE: (
        "reuses nothing of prompts that were sent there before, and sends no KV events that would tell why. Likely: "
        "prefix caching is off, or a salt or LoRA set in front of the engine makes every prompt new"
    ),
    Suspicion.DECODE_PULLS_MORE: (
        "pulled {detail} tokens more than its plans said it lacks: prefixes that we believe there are not. Likely: a "
        "gap in its KV events, or hand-offs by another gateway"
    ),
}


class Suspicions:
    """What is suspected of each endpoint."""

    def __init__(self) -> None:
        self._shares: dict[EndpointId, dict[Suspicion, float]] = {}
        self._told: set[tuple[EndpointId, Suspicion]] = set()

    def add(self, endpoint: EndpointId, suspicion: Suspicion, speaks_for: bool, detail: object = "") -> list[Warn]:
        """Take in evidence. Returns a warning when the suspicion is worth telling now."""
        shares = self._shares.setdefault(endpoint, {})
        share = shares.get(suspicion, 0.0)
        gain = 1.0 if suspicion.certain and speaks_for else GAIN
        share = shares[suspicion] = share + gain * (speaks_for - share)
        key = endpoint, suspicion
        if share < CURED:
            self._told.discard(key)
        if share < TELL or key in self._told:
            return []
        self._told.add(key)
        return [Warn(suspicion, endpoint, f"{endpoint} {_WORDS[suspicion].format(detail=detail)}")]

    def forget(self, endpoint: EndpointId) -> None:
        """The endpoint left the fleet."""
        self._shares.pop(endpoint, None)
        self._told = {key for key in self._told if key[0] != endpoint}
