"""Why an endpoint cannot serve a request: the rule that says so, and what would cure it."""

from dataclasses import dataclass
from enum import StrEnum

from vicinal.domain.ids import EndpointId


class Rule(StrEnum):
    """The closed set of reasons for leaving an endpoint out, most permanent first."""

    MODEL = "model"
    TOO_LONG = "too_long"
    UNHEALTHY = "unhealthy"
    TRIED = "tried"
    HEADROOM = "headroom"
    SEQUENCES = "sequences"

    @property
    def passing(self) -> bool:
        """True when waiting can cure it: other requests finish and leave room."""
        return self in (Rule.HEADROOM, Rule.SEQUENCES)


@dataclass(frozen=True, slots=True)
class Verdict:
    endpoint: EndpointId
    rule: Rule
    reason: str
    cure: str
