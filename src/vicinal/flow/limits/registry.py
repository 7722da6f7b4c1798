"""Limits by name, with parameters (contracts/words.py)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from vicinal.contracts.limit import Limit
from vicinal.contracts.words import Words
from vicinal.flow.limits.aimd import Aimd
from vicinal.flow.limits.fixed import Fixed
from vicinal.flow.limits.gradient import Gradient

LIMITS: Mapping[str, Callable[..., Limit]] = MappingProxyType({"fixed": Fixed, "gradient": Gradient, "aimd": Aimd})

LIMIT_WORDS = Words("limit", LIMITS)


def limit(text: str) -> Limit:
    """A new limit from its name, or its name and parameters. It is called by the whole text."""
    return LIMIT_WORDS.make(text)
