"""What the engines noted of each leg, and which legs are a request's answer.

Stamps are model seconds of one clock. A request's first attempt carries its id, a later one `<id>.<n>` (n = 1, 2, …);
both legs of an attempt carry the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vicinal.domain.plan import Leg
from vicinal.wire.stamps import Stamp


@dataclass(frozen=True, slots=True)
class Served:
    """The attempt that answered a request, in model seconds.

    `tried_s` is the time that earlier attempts took: from the first leg's arrival of any attempt to that of this one.
    `first` is the prefilling leg (prefill or whole) and `last` the decoding one (decode or whole). Where a prefill leg
    ended the request by itself (its first token was its last), it is both.
    """

    first: Stamp
    last: Stamp
    tried_s: float

    @property
    def ttft_s(self) -> float | None:
        """Seconds in which an engine was at work on it until the first token: the gateway's time between the legs is
        not in it, and where the legs overlap (a concurrent hand-off) they count once."""
        first, last = self.first, self.last
        if last.first_token_s is None:
            return None
        if first is last:
            return self.tried_s + last.first_token_s - last.arrived_s
        if first.finished_s is None:
            return None
        prefilled_s = min(first.finished_s, last.first_token_s)
        overlap_s = max(0.0, prefilled_s - max(first.arrived_s, last.arrived_s))
        return self.tried_s + (prefilled_s - first.arrived_s) + (last.first_token_s - last.arrived_s) - overlap_s

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None for an answer of one token."""
        last = self.last
        if last.finished_s is None or last.first_token_s is None or not last.output_tokens or last.output_tokens < 2:
            return None
        return (last.finished_s - last.first_token_s) / (last.output_tokens - 1)

    @property
    def e2e_s(self) -> float | None:
        """TTFT and the seconds of all tokens after the first."""
        if self.ttft_s is None or self.last.finished_s is None or self.last.first_token_s is None:
            return None
        return self.ttft_s + self.last.finished_s - self.last.first_token_s


def served(request_ids: Iterable[str], stamps: Iterable[Stamp]) -> dict[str, Served]:
    """For each request its last finished attempt; a request without one is not in it.

    Stamps of other requests (warm-ups, probes) are left out. An attempt is finished when its decoding leg is; or, when
    it has none, when its prefill leg is.
    """
    known = frozenset(request_ids)
    attempts: dict[str, dict[int, dict[Leg, Stamp]]] = {}
    for stamp in stamps:
        request_id, attempt = _attempt(stamp.request_id, known)
        if request_id is not None:
            attempts.setdefault(request_id, {}).setdefault(attempt, {})[stamp.leg] = stamp
    answered = {}
    for request_id, by_attempt in attempts.items():
        if found := _last_finished(by_attempt):
            answered[request_id] = found
    return answered


def _attempt(stamped_id: str, known: frozenset[str]) -> tuple[str | None, int]:
    if stamped_id in known:
        return stamped_id, 0
    request_id, _, number = stamped_id.rpartition(".")
    return (request_id, int(number)) if request_id in known and number.isdecimal() else (None, 0)


def _last_finished(by_attempt: Mapping[int, Mapping[Leg, Stamp]]) -> Served | None:
    began_s = min(stamp.arrived_s for legs in by_attempt.values() for stamp in legs.values())
    for _, legs in sorted(by_attempt.items(), reverse=True):
        last = legs.get(Leg.WHOLE) or legs.get(Leg.DECODE) or legs.get(Leg.PREFILL)
        first = legs.get(Leg.WHOLE) or legs.get(Leg.PREFILL)
        if first is not None and last is not None and last.finished_s is not None:
            return Served(first, last, first.arrived_s - began_s)
    return None
