"""The errors that a user of the command line can mend: their text names the cause and the cure."""

from vicinal.cli.bench_dynamo import PeerError
from vicinal.cli.bench_gateway import GatewayBenchError
from vicinal.config.made import MadeClusterError
from vicinal.config.problems import ConfigError
from vicinal.contracts.words import UnknownWordError
from vicinal.enginemodel.profiles import UnknownProfileError
from vicinal.observe.read import NoSuchRequest, RecordError
from vicinal.scenarios.report import ScenarioError
from vicinal.sim.faults import FaultError
from vicinal.sim.requests import UnknownServiceError
from vicinal.tokenizer.errors import TokenizerError
from vicinal.topology.naming import UnknownLinkError
from vicinal.wiring.children import ChildFailedError
from vicinal.wiring.runs import RunError
from vicinal.workload.bounds import ParameterError
from vicinal.workload.trace import TraceError


class UsageError(ValueError):
    """Words of the command line that do not go together."""


PROBLEMS = (
    UsageError,
    RunError,
    ScenarioError,
    FaultError,
    UnknownServiceError,
    UnknownLinkError,
    MadeClusterError,
    ParameterError,
    TraceError,
    ConfigError,
    UnknownWordError,
    UnknownProfileError,
    RecordError,
    NoSuchRequest,
    ChildFailedError,
    PeerError,
    GatewayBenchError,
    TokenizerError,
    OSError,
)


def words(problem: Exception) -> str:
    """A problem in words, without the number of an OSError or the name that a child of ours put in front."""
    text = problem.strerror if isinstance(problem, OSError) and problem.strerror else str(problem)
    if isinstance(problem, OSError) and problem.filename is not None:
        text = f"{problem.filename}: {text}"
    return text.removeprefix("vicinal: ")
