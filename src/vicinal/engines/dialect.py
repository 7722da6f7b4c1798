"""A dialect: what one family of engines says and wants to hear, as functions of bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vicinal.domain.capabilities import Capabilities
from vicinal.domain.endpoint import Endpoint, HandOff
from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport
from vicinal.engines.errors import ErrorRules
from vicinal.engines.handover import Way
from vicinal.engines.kv_events import DecodeBatch
from vicinal.engines.ranks import of_rank

ReadReport = Callable[[str, EndpointId, float], EndpointReport]
"""(page, endpoint, when it was asked for) -> what it says. Raises nothing."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """`can` says what of the rest is there to be used.

    `sign_path` is what is asked for a sign of life: the metrics page, or, without one, a route that any server has;
    `answers_alive` says which status is one. `rank_label` is the label of a data-parallel rank on the page.
    `decode_batch` is None for engines that publish no events.
    """

    name: str
    can: Capabilities
    sign_path: str
    answers_alive: Callable[[int], bool]
    read_report: ReadReport
    rank_label: str
    errors: ErrorRules
    ways: Mapping[HandOff, Way]
    decode_batch: DecodeBatch | None = None

    def report_of(self, endpoint: Endpoint) -> ReadReport:
        """How to read a page for `endpoint`: as it is, or only what is of its data-parallel rank."""
        rank = endpoint.data_parallel_rank
        if rank is None:
            return self.read_report
        return lambda page, name, at_s: self.read_report(of_rank(page, self.rank_label, rank), name, at_s)


def way_of(dialect: Dialect, endpoint: Endpoint) -> Way | None:
    """How `endpoint` hands off; None when it does not, or in a way that its dialect does not know."""
    return dialect.ways.get(endpoint.hand_off) if endpoint.hands_off else None


def rank_header(endpoint: Endpoint) -> bytes:
    """The header line that names a data-parallel rank to vLLM and SGLang; empty where there is none to name."""
    rank = endpoint.data_parallel_rank
    return b"" if rank is None else b"X-data-parallel-rank: %d\r\n" % rank
