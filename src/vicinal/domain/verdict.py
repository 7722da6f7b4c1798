"""Why an endpoint cannot serve a request: the rule that says so, and what would cure it."""

from enum import StrEnum

from msgspec import Struct

from vicinal.domain.ids import EndpointId


class Rule(StrEnum):
    """The closed set of reasons for leaving an endpoint out, most permanent first."""

    MODEL = "model"
    TOO_LONG = "too_long"
    PARTNER = "partner"
    RESERVED = "reserved"
    UNHEALTHY = "unhealthy"
    TRIED = "tried"
    UNREACHABLE = "unreachable"
    CIRCUIT = "circuit"
    HEADROOM = "headroom"
    SEQUENCES = "sequences"
    SHARE = "share"
    SATURATED = "saturated"
    UNINVOLVED = "uninvolved"

    @property
    def passing(self) -> bool:
        """True when waiting can cure it: requests finish and leave room, or an endpoint that failed reports again."""
        return self in (Rule.UNREACHABLE, Rule.CIRCUIT, Rule.SATURATED, *FULL)


FULL = (Rule.HEADROOM, Rule.SEQUENCES, Rule.SHARE)
"""The rules that leave an endpoint out because of what it has to do already, or is to have room for."""


class Verdict(Struct, frozen=True):
    endpoint: EndpointId
    rule: Rule
    reason: str
    cure: str
