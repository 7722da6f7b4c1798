"""The errors that a user of the command line can mend: their text names the cause and the cure."""

from vicinal.config.problems import ConfigError
from vicinal.enginemodel.profiles import UnknownProfileError
from vicinal.observe.read import NoSuchRequest, RecordError
from vicinal.policies.registry import UnknownPolicyError
from vicinal.wiring.children import ChildFailedError


class UsageError(ValueError):
    """Words of the command line that do not go together."""


PROBLEMS = (
    UsageError,
    ConfigError,
    UnknownPolicyError,
    UnknownProfileError,
    RecordError,
    NoSuchRequest,
    ChildFailedError,
    OSError,
)
