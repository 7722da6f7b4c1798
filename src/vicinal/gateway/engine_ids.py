"""What prefill engines are called at their bootstrap servers (`GET /query`), for hand-offs that name them.

An engine that starts again has a new name. So a name is asked for once, and again after any leg of such a hand-off has
failed: a stale one costs one attempt.
"""

from collections.abc import Callable

from vicinal.engines.vllm.hand_off import read_engine_id
from vicinal.gateway.directory import Address, Target
from vicinal.gateway.upstream import Call, UpstreamPool

_ANSWER_BYTES = 1 << 20


class EngineIds:
    """Names by bootstrap server and data-parallel rank."""

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool
        self._known: dict[tuple[Address, int | None], str] = {}

    def find(self, target: Target) -> str | None:
        return self._known.get((target.bootstrap, target.rank))

    def forget(self, target: Target) -> None:
        self._known.pop((target.bootstrap, target.rank), None)

    def keep_only(self, bootstraps: frozenset[Address]) -> None:
        """Forget the engines of servers that have left."""
        self._known = {at: name for at, name in self._known.items() if at[0] in bootstraps}

    def ask(self, target: Target, told: Callable[[str], None], failed: Callable[[str], None]) -> Call:
        """Exactly one of `told` (with the name) and `failed` (with the reason) is called, never before this returns,
        unless the call is cancelled."""
        head = b"GET /query HTTP/1.1\r\nHost: %b\r\n\r\n" % target.bootstrap.authority.encode()

        def read(body: bytes) -> None:
            try:
                name = read_engine_id(body, target.rank)
            except ValueError as error:
                failed(f"{target.bootstrap.authority}: {error}")
                return
            self._known[target.bootstrap, target.rank] = name
            told(name)

        return self._pool.send(target.bootstrap, head, _Query(read, failed))


class _Query:
    """Collects the answer (a `Sink`)."""

    def __init__(self, read: Callable[[bytes], None], failed: Callable[[str], None]) -> None:
        self._read = read
        self._failed = failed
        self._status = 0
        self._body = b""

    def head(self, status: int, content_type: bytes) -> None:  # noqa: ARG002 (a Sink is told)
        self._status = status

    def data(self, chunk: bytes) -> None:
        self._body = (self._body + chunk)[: _ANSWER_BYTES + 1]

    def end(self) -> None:
        if self._status != 200 or len(self._body) > _ANSWER_BYTES:
            self._failed(f"the bootstrap server answered {self._status} with {len(self._body)} bytes")
        else:
            self._read(self._body)

    def failed(self, reason: str) -> None:
        self._failed(reason)
