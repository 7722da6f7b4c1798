"""The bounds have one truth: a configuration that says nothing gives what the gateway's rooms take for granted."""

from vicinal.config.default import default_cluster
from vicinal.gateway.limits import Limits
from vicinal.wiring.served import limits


def test_a_configuration_that_says_nothing_has_the_bounds_of_the_gateway() -> None:
    assert limits(default_cluster()) == Limits()
