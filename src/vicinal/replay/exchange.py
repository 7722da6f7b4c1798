"""One request on its way: what is noted while its answer streams in, and the judgement at its end."""

from dataclasses import dataclass, field

import msgspec

from vicinal.replay.answer import SHED_STATUSES, Answer, Fate
from vicinal.replay.stream import Tail, error_text
from vicinal.workload.arrival import Arrival

_BODY_TEXT_MAX = 500


@dataclass(slots=True)
class Exchange:
    """A request from its sending to its end, the `tries`-th of its errand. `broken` says how the connection failed;
    None when it did not."""

    request_id: str
    arrival: Arrival
    tries: int
    due_s: float
    sent_s: float
    status: int | None = None
    retry_after_s: float | None = None
    first_s: float | None = None
    last_s: float | None = None
    broken: str | None = None
    tail: Tail = field(default_factory=Tail)

    def began(self, status: int, retry_after: str | None) -> None:
        """The head of the answer came. Of a Retry-After only whole seconds are understood."""
        self.status = status
        if retry_after is not None and retry_after.isdecimal():
            self.retry_after_s = float(retry_after)

    def chunk(self, data: bytes, now_s: float) -> None:
        if self.first_s is None:
            self.first_s = now_s
        self.last_s = now_s
        self.tail.feed(data)

    def answer(self) -> Answer:
        """A request is completed only when its stream said so: 200, no error event, `[DONE]`."""
        end = self.tail.end()
        if self.status == 200 and end.done and not end.error and not self.broken:
            fate, error = Fate.COMPLETED, None
        elif self.status == 200 or self.status is None:
            fate, error = Fate.FAILED, end.error or self.broken or "the stream ended without [DONE]"
        else:
            fate = Fate.SHED if self.status in SHED_STATUSES else Fate.FAILED
            error = f"HTTP {self.status}: {self.broken or _body_error(self.tail.text())}"
        return Answer(
            request_id=self.request_id,
            at_s=self.arrival.at_s,
            fate=fate,
            due_s=self.due_s,
            sent_s=self.sent_s,
            status=self.status,
            first_s=self.first_s,
            last_s=self.last_s,
            prompt_tokens=end.prompt_tokens,
            output_tokens=end.output_tokens,
            cached_tokens=end.cached_tokens,
            error=error,
            tries=self.tries,
            tenant=self.arrival.tenant,
            service=self.arrival.service,
            retry_after_s=self.retry_after_s,
        )


def _body_error(body: bytes) -> str:
    try:
        parsed = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body[:_BODY_TEXT_MAX].decode("utf-8", "replace")
    return error_text(parsed.get("error", parsed) if isinstance(parsed, dict) else parsed)
