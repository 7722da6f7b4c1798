"""Scenarios by name."""

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from types import MappingProxyType

from vicinal.scenarios.early_rejection import early_rejection
from vicinal.scenarios.every_policy import every_policy
from vicinal.scenarios.fairness import fairness
from vicinal.scenarios.head_of_line import head_of_line
from vicinal.scenarios.isolation import isolation
from vicinal.scenarios.isolation_live import isolation_live
from vicinal.scenarios.knee import knee
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.live import LiveLaboratory
from vicinal.scenarios.mooncake_fig5 import mooncake_fig5
from vicinal.scenarios.netkv import netkv
from vicinal.scenarios.overload import overload
from vicinal.scenarios.overload_live import overload_live
from vicinal.scenarios.prices import prices
from vicinal.scenarios.report import Report, ScenarioError
from vicinal.scenarios.stale_information import stale_information
from vicinal.scenarios.starvation import starvation

Scenario = Callable[[Laboratory], Report]
LiveScenario = Callable[[LiveLaboratory], Report]

SCENARIOS: Mapping[str, Scenario] = MappingProxyType(
    {
        "mooncake_fig5": mooncake_fig5,
        "netkv": netkv,
        "stale_information": stale_information,
        "knee": knee,
        "prices": prices,
        "every_policy": every_policy,
        "isolation": isolation,
        "fairness": fairness,
        "starvation": starvation,
        "overload": overload,
        "head_of_line": head_of_line,
        "early_rejection": early_rejection,
    }
)


LIVE: Mapping[str, LiveScenario] = MappingProxyType({"isolation": isolation_live, "overload": overload_live})
"""Those that can also be run on the embedded cluster, in a smaller edition."""


def scenario(name: str) -> Scenario:
    """The scenario of that name; raises ScenarioError, which names the nearest and lists all."""
    try:
        return SCENARIOS[name]
    except KeyError:
        near = get_close_matches(name, SCENARIOS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ScenarioError(f"no scenario is called {name!r}.{hint} Known: {', '.join(SCENARIOS)}") from None


def live_scenario(name: str) -> LiveScenario:
    """Its live edition; raises ScenarioError where there is none."""
    scenario(name)
    try:
        return LIVE[name]
    except KeyError:
        raise ScenarioError(f"{name} runs in the simulator only; --live knows {', '.join(LIVE) or 'none'}") from None
