"""Which header lines engines get besides our own: what a client sent, or the key that the fleet's engines take."""

from collections.abc import Mapping
from dataclasses import dataclass

AUTHORIZATION = b"authorization"
_TRACING = (b"traceparent", b"tracestate")


@dataclass(frozen=True, slots=True)
class Forwarding:
    """A client's `Authorization` is for engines only where the gateway asks for no key (`clients_own`); the fleet's
    `engine_key` goes before it. An engine never sees a key of the gateway's."""

    clients_own: bool = True
    engine_key: str = ""

    def lines(self, headers: Mapping[bytes, bytes]) -> bytes:
        """Of a request with `headers`, each with its line end."""
        lines = b"".join(b"%b: %b\r\n" % (name, headers[name]) for name in _TRACING if name in headers)
        if self.engine_key:
            return lines + b"authorization: Bearer %b\r\n" % self.engine_key.encode()
        if self.clients_own and AUTHORIZATION in headers:
            return lines + b"authorization: %b\r\n" % headers[AUTHORIZATION]
        return lines

    def headers(self) -> dict[str, str]:
        """What our own questions to engines need."""
        return {"Authorization": f"Bearer {self.engine_key}"} if self.engine_key else {}
