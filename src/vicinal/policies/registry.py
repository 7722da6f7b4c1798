"""Policies by name, with parameters (contracts/words.py)."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vicinal.contracts.policy import Policy
from vicinal.contracts.words import Words
from vicinal.policies.affinity import Affinity
from vicinal.policies.cost import Cost
from vicinal.policies.decode_first import DecodeFirst
from vicinal.policies.least_loaded import LeastLoaded
from vicinal.policies.lmetric import LMetric
from vicinal.policies.locality import Locality
from vicinal.policies.mooncake import Mooncake
from vicinal.policies.netkv import NetKV
from vicinal.policies.power_of_two import PowerOfTwo
from vicinal.policies.prefill_first import PrefillFirst
from vicinal.policies.prefill_then_decode import PrefillThenDecode
from vicinal.policies.random_choice import Random
from vicinal.policies.round_robin import RoundRobin
from vicinal.policies.selfish import Selfish
from vicinal.policies.static_groups import StaticGroups
from vicinal.policies.weighted_score import WeightedScore

POLICIES: Mapping[str, Callable[..., Policy]] = MappingProxyType(
    {
        "cost": Cost,
        "affinity": Affinity,
        "decode_first": DecodeFirst,
        "prefill_first": PrefillFirst,
        "locality": Locality,
        "weighted_score": WeightedScore,
        "static_groups": StaticGroups,
        "power_of_two": PowerOfTwo,
        "least_loaded": LeastLoaded,
        "round_robin": RoundRobin,
        "random": Random,
        "mooncake": Mooncake,
        "lmetric": LMetric,
        "netkv": NetKV,
        "selfish": Selfish,
        "prefill_then_decode": PrefillThenDecode,
    }
)

_WORDS = Words("policy", POLICIES)


def policy(text: str) -> Policy:
    """A new policy from its name, or its name and parameters. It is called by the whole text."""
    return _WORDS.make(text)


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a policy and their types."""
    return _WORDS.parameters(name)
