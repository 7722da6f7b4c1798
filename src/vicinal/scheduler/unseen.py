"""First tokens that nobody sees.

An unstreamed answer comes whole, so the moment at which its prefill or transfer ended never shows. Left alone, its
place in a prefill queue, its flow and its source's HBM would count until the answer ends. So they are taken to end when
the decision expected the first token.
"""

from vicinal.domain.ids import RequestId


class UnseenTokens:
    """When each unstreamed request's first token is expected."""

    def __init__(self) -> None:
        self._due_s: dict[RequestId, float] = {}

    def expect(self, request_id: RequestId, at_s: float) -> None:
        self._due_s[request_id] = at_s

    def forget(self, request_id: RequestId) -> None:
        """Does nothing for a request that is not waited for."""
        self._due_s.pop(request_id, None)

    def next_s(self) -> float | None:
        return min(self._due_s.values()) if self._due_s else None

    def take_due(self, now: float) -> list[RequestId]:
        """Those whose time has come, earliest first; they are not waited for any more."""
        due = sorted((at_s, request_id) for request_id, at_s in self._due_s.items() if at_s <= now)
        for _, request_id in due:
            del self._due_s[request_id]
        return [request_id for _, request_id in due]
