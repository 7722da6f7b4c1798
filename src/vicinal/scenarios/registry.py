"""Scenarios by name."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from vicinal.scenarios.every_policy import every_policy
from vicinal.scenarios.knee import knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.mooncake_fig5 import mooncake_fig5
from vicinal.scenarios.netkv import netkv
from vicinal.scenarios.prices import prices
from vicinal.scenarios.report import Report, ScenarioError
from vicinal.scenarios.stale_information import stale_information

Scenario = Callable[[Laboratory], Report]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "mooncake_fig5": mooncake_fig5,
        "netkv": netkv,
        "stale_information": stale_information,
        "knee": knee,
        "prices": prices,
        "every_policy": every_policy,
    }
)


def scenario(name: str) -> Scenario:
    """The scenario of that name; raises ScenarioError, which names the nearest and lists all."""
    try:
        return SCENARIOS[name]
    except KeyError:
        near = get_close_matches(name, SCENARIOS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ScenarioError(f"no scenario is called {name!r}.{hint} Known: {', '.join(SCENARIOS)}") from None
