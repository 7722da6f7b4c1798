"""Policies by name. A new one each time, because some keep state: two schedulers never share a policy.

A policy with parameters is asked for as `name:key=value` or `name:key=value+key=value`: no comma and no blank, so that
a list of policies stays readable on a command line.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

import msgspec

from vicinal.contracts.policy import Policy
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


class UnknownPolicyError(ValueError):
    """No policy has that name, or it has no such parameter or value; the message lists those that there are."""


def policy(text: str) -> Policy:
    """A new policy from its name, or its name and parameters. It is called by the whole text."""
    name, colon, rest = text.partition(":")
    if name not in POLICIES:
        raise UnknownPolicyError(f"unknown policy {name!r}.{_hint(name, POLICIES)} Known: {', '.join(POLICIES)}")
    make = POLICIES[name]
    given = _given(name, rest, parameters(name)) if colon else {}
    return make(name=text, **given)


def parameters(name: str) -> dict[str, Any]:
    """The parameters of a policy and their types."""
    make: Any = POLICIES[name]
    hints = get_type_hints(make, include_extras=True)
    return {field.name: hints[field.name] for field in fields(make) if field.name != "name" and field.name[0] != "_"}


def _given(name: str, text: str, known: Mapping[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for part in re.split(r"\+(?=[a-z_]+=)", text):
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            words = ", ".join(f"{each}={_values(kind)}" for each, kind in known.items())
            raise UnknownPolicyError(
                f"policy {name!r} has no parameter {part!r}.{_hint(key, known)} "
                + (f"Known: {words}, joined by +" if words else "It has none")
            )
        if key in given:
            raise UnknownPolicyError(f"parameter {key!r} of policy {name!r} is given twice")
        given[key] = _value(name, key, value, known[key])
    return given


def _value(name: str, key: str, text: str, kind: Any) -> Any:
    try:
        value = msgspec.convert(text, kind, strict=False)
        if isinstance(value, float) and not math.isfinite(value):
            raise msgspec.ValidationError(f"Expected a finite number, got {text}")
    except msgspec.ValidationError as error:
        reason = f"{text!r} is none of {_values(kind)}" if _choices(kind) else str(error)
        raise UnknownPolicyError(f"parameter {key!r} of policy {name!r}: {reason}") from None
    return value


def _values(kind: Any) -> str:
    return "|".join(_choices(kind)) or "NUMBER"


def _choices(kind: Any) -> tuple[str, ...]:
    """The words that a parameter can be; none for a number."""
    return tuple(each for each in get_args(kind) if isinstance(each, str))


def _hint(word: str, known: Iterable[str]) -> str:
    near = get_close_matches(word, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
