"""Which address an endpoint's engine has. Replaced as a whole when the fleet changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine listens; `prefix` is the path in front of its `/v1`, empty as a rule."""

    host: str
    port: int
    prefix: str = ""

    @property
    def authority(self) -> str:
        """The value of a `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(url: str) -> Address:
    """`http://host:port[/prefix]` as an address. Raises ValueError naming what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"engine address {url!r}: expected http://host:port")
    return Address(parts.hostname, parts.port or 80, parts.path.rstrip("/"))


class EndpointDirectory:
    """Addresses by endpoint."""

    def __init__(self, endpoints: Iterable[Endpoint] = ()) -> None:
        self._addresses: dict[EndpointId, Address] = {}
        self.replace(endpoints)

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """The fleet is now exactly these. Raises ValueError for a bad address and changes nothing then."""
        self._addresses = {endpoint.id: parse_address(endpoint.url) for endpoint in endpoints}

    def find(self, endpoint: EndpointId) -> Address | None:
        """None when the endpoint has left the fleet."""
        return self._addresses.get(endpoint)

    def addresses(self) -> frozenset[Address]:
        return frozenset(self._addresses.values())
