"""Every way a request can end, in one closed list, with what it means: to HTTP, to its client, to an operator."""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """Whose doing it is that a request was not answered, and so who can change it.

    `TENANT`: its quota is used up. `FLEET`: the engines have no room, or none answers. `GATEWAY`: vicinal itself.
    """

    NOBODY = "nobody"
    CLIENT = "client"
    TENANT = "tenant"
    FLEET = "fleet"
    ENGINE = "engine"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What one way to end tells. `text` says in a sentence what happened.

    `again`: the same request may succeed later, so its answer says when to come back (`Retry-After`).
    """

    status: int
    fault: Fault
    text: str
    again: bool = False


class Ending(StrEnum):
    """Exactly one of these is the end of each request that a core took."""

    DONE = "done"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"
    REJECTED = "rejected"
    UNKNOWN_MODEL = "unknown_model"
    TOO_LONG = "too_long"
    NO_ENDPOINT = "no_endpoint"
    NO_CORE = "no_core"
    QUEUE_FULL = "queue_full"
    WAITED_TOO_LONG = "waited_too_long"
    QUOTA_EXCEEDED = "quota_exceeded"
    TOO_LATE = "too_late"
    OVERLOADED = "overloaded"
    ENGINE_FAILED = "engine_failed"
    STREAM_BROKEN = "stream_broken"

    @property
    def meaning(self) -> Meaning:
        return _MEANINGS[self]

    @property
    def http_status(self) -> int:
        return _MEANINGS[self].status

    @property
    def retryable(self) -> bool:
        """A client may try the same request again after a while."""
        return _MEANINGS[self].again

    @property
    def answered_by_core(self) -> bool:
        """The core has an answer for its client, who has none yet, or half of one, and is still there."""
        return self.http_status not in (200, CLIENT_GONE)

    @property
    def refused(self) -> bool:
        """No engine failed: the request was not to be served, or not now."""
        return self.answered_by_core and not self.failed

    @property
    def failed(self) -> bool:
        """An engine had it and did not carry it out."""
        return _MEANINGS[self].fault is Fault.ENGINE


CLIENT_GONE = 499
"""The status of what nobody is there to read (nginx has it; HTTP has none)."""

_MEANINGS = {
    Ending.DONE: Meaning(200, Fault.NOBODY, "answered"),
    Ending.CANCELLED: Meaning(CLIENT_GONE, Fault.CLIENT, "the client went away"),
    Ending.ORPHANED: Meaning(CLIENT_GONE, Fault.GATEWAY, "the relay that carried the request died"),
    Ending.REJECTED: Meaning(400, Fault.CLIENT, "the request itself is wrong: an engine says so, or its id is in use"),
    Ending.UNKNOWN_MODEL: Meaning(404, Fault.CLIENT, "no endpoint of the fleet serves that model"),
    Ending.TOO_LONG: Meaning(400, Fault.CLIENT, "no endpoint holds prompt and expected answer"),
    Ending.NO_ENDPOINT: Meaning(503, Fault.FLEET, "nobody can serve the request: silent, or tried already", again=True),
    Ending.NO_CORE: Meaning(503, Fault.GATEWAY, "the scheduler's process was away too long", again=True),
    Ending.QUEUE_FULL: Meaning(429, Fault.FLEET, "as many requests are held already as may be", again=True),
    Ending.WAITED_TOO_LONG: Meaning(503, Fault.FLEET, "held for as long as it may be, and no room came", again=True),
    Ending.QUOTA_EXCEEDED: Meaning(429, Fault.TENANT, "a quota of its tenant is used up", again=True),
    Ending.TOO_LATE: Meaning(
        503, Fault.FLEET, "its objective cannot be met any more when its prefill would end", again=True
    ),
    Ending.OVERLOADED: Meaning(503, Fault.FLEET, "its band is shed while the fleet is under pressure", again=True),
    Ending.ENGINE_FAILED: Meaning(502, Fault.ENGINE, "every attempt failed before the first byte", again=True),
    Ending.STREAM_BROKEN: Meaning(502, Fault.ENGINE, "an engine failed after the first byte", again=True),
}

DETAIL_CHARS_MAX = 64


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended, why, and (for a refusal) when it is worth coming back.

    `detail` says to a machine which of several bounds it was: the name of a quota, for example. It is one of a few
    words (a metric's label), never a figure, and never anything of a request's text.
    """

    ending: Ending
    reason: str = ""
    retry_after_s: float | None = None
    detail: str = ""
