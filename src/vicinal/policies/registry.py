"""Policies by name. A factory each, because some keep state: two schedulers never share a policy."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from vicinal.contracts.policy import Policy
from vicinal.policies.affinity import Affinity
from vicinal.policies.cost import Cost
from vicinal.policies.decode_first import DecodeFirst
from vicinal.policies.least_loaded import LeastLoaded
from vicinal.policies.prefill_first import PrefillFirst
from vicinal.policies.round_robin import RoundRobin
from vicinal.policies.static_groups import StaticGroups

POLICIES: Mapping[str, Callable[[], Policy]] = MappingProxyType(
    {
        "cost": Cost,
        "affinity": Affinity,
        "decode_first": DecodeFirst,
        "prefill_first": PrefillFirst,
        "least_loaded": LeastLoaded,
        "static_groups": StaticGroups,
        "round_robin": RoundRobin,
    }
)


class UnknownPolicyError(ValueError):
    """No policy has that name; the message lists those that there are."""


def policy(name: str) -> Policy:
    """A new policy of that name."""
    try:
        return POLICIES[name]()
    except KeyError:
        near = get_close_matches(name, POLICIES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise UnknownPolicyError(f"unknown policy {name!r}.{hint} Known: {', '.join(POLICIES)}") from None
