"""From which tier of the engine the reused part of prompts came."""

from collections.abc import Mapping

from vicinal.domain.tier import Tier


def hit_rate_by_tier(cached_tokens: int, loaded_tokens: Mapping[str, int], prompt_tokens: int) -> dict[str, float]:
    """Shares of `prompt_tokens` by tier, HBM first; they add up to cached ÷ prompt tokens. `loaded_tokens` are those of
    the cached ones that lay below HBM. Empty when there are none."""
    below = {tier.value: loaded_tokens[tier] for tier in Tier if loaded_tokens.get(tier)}
    if not below:
        return {}
    tokens = {Tier.HBM.value: cached_tokens - sum(below.values())} | below
    return {tier: count / prompt_tokens for tier, count in tokens.items()}
