"""Every way a request can end, in one closed list, with its meaning in HTTP."""

from dataclasses import dataclass
from enum import StrEnum


class Ending(StrEnum):
    """Exactly one of these is the end of each request."""

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
    def http_status(self) -> int:
        return _STATUS[self]

    @property
    def retryable(self) -> bool:
        """A client may try the same request again after a while."""
        return self.http_status in (429, 502, 503)


_STATUS = {
    Ending.DONE: 200,
    Ending.CANCELLED: 499,
    Ending.ORPHANED: 499,
    Ending.REJECTED: 400,
    Ending.UNKNOWN_MODEL: 404,
    Ending.TOO_LONG: 400,
    Ending.NO_ENDPOINT: 503,
    Ending.NO_CORE: 503,
    Ending.QUEUE_FULL: 429,
    Ending.WAITED_TOO_LONG: 503,
    Ending.QUOTA_EXCEEDED: 429,
    Ending.TOO_LATE: 503,
    Ending.OVERLOADED: 503,
    Ending.ENGINE_FAILED: 502,
    Ending.STREAM_BROKEN: 502,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one request ended, why, and (for a refusal) when it is worth coming back.

    `detail` says to a machine which of several bounds it was: the name of a quota, for example.
    """

    ending: Ending
    reason: str = ""
    retry_after_s: float | None = None
    detail: str = ""
