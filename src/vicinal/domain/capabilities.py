"""What each dialect can do, as data: a plan, and a configuration, may only ask for what is here."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vicinal.domain.endpoint import HandOff


@dataclass(frozen=True, slots=True)
class Capabilities:
    """`hand_offs` lists the kinds it knows, its own one first; none means whole requests only.

    `events`: it can publish KV events. `metrics`: it has a page of figures; without one, all that is known of its load
    is what we sent it. `cache_salt`: it keeps prompts with different salts apart. `tokenize`: it answers `/tokenize`.
    """

    hand_offs: tuple[HandOff, ...] = ()
    events: bool = False
    metrics: bool = False
    cache_salt: bool = False
    tokenize: bool = False


CAPABILITIES: Mapping[str, Capabilities] = MappingProxyType(
    {
        "vllm": Capabilities(
            (HandOff.NIXL, HandOff.MOONCAKE), events=True, metrics=True, cache_salt=True, tokenize=True
        ),
        "sglang": Capabilities((HandOff.BOOTSTRAP,), events=True, metrics=True, cache_salt=True, tokenize=True),
        "openai": Capabilities(),
    }
)
"""By the dialect's name."""
