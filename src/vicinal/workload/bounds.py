"""What the parameters of a made workload may be: a wrong one is refused with its name, its value and the bound."""

import math


class ParameterError(ValueError):
    """A made workload that cannot be: unknown, misspelt or impossible. Its text says what is expected."""


def at_least(least: float, **values: float) -> None:
    """Raises ParameterError for a value that is below `least` or not finite."""
    for name, value in values.items():
        if not least <= value < math.inf:
            raise ParameterError(f"{name} must be at least {least:g} and finite, not {value:g}")


def positive(**values: float) -> None:
    """Raises ParameterError for a value that is not above 0, or not finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ParameterError(f"{name} must be positive and finite, not {value:g}")


def share(**values: float) -> None:
    """Raises ParameterError for a value that is not between 0 and 1."""
    for name, value in values.items():
        if not 0 <= value <= 1:
            raise ParameterError(f"{name} is a share and must be between 0 and 1, not {value:g}")
