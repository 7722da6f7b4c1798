"""What became of one request, as its client saw it. Stamps are wall seconds of the monotonic clock."""

from enum import StrEnum

import msgspec


class Fate(StrEnum):
    """Exactly one of these for each request that was sent."""

    COMPLETED = "completed"
    SHED = "shed"
    FAILED = "failed"


SHED_STATUSES = (429, 503)


class Answer(msgspec.Struct, frozen=True):
    """One request's result. What did not happen, or was not said, is None.

    `due_s` is when it should have been sent, `sent_s` when it was; `first_s` and `last_s` are the first and the last
    byte of its stream. `at_s` is the workload's stamp in model seconds. Tokens are those of the answer's usage.
    It is the `tries`-th request of its errand; `tenant` and `service` are who sent it and of which kind, as the
    workload says. `retry_after_s` is what a refusal's header says.
    """

    request_id: str
    at_s: float
    fate: Fate
    due_s: float
    sent_s: float
    status: int | None = None
    first_s: float | None = None
    last_s: float | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    error: str | None = None
    tries: int = 1
    tenant: str | None = None
    service: str | None = None
    retry_after_s: float | None = None


class Progress(msgspec.Struct, frozen=True):
    """How far a replay is. `sent` counts errands of which a request left; those not yet over are `sent` − the other
    three."""

    total: int
    sent: int
    completed: int
    shed: int
    failed: int
