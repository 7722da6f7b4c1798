"""Which address an endpoint's engine has, and how to talk to it. Replaced as a whole when the fleet changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.engines.dialect import Dialect, rank_header, way_of
from vicinal.engines.handover import Way
from vicinal.engines.registry import dialect

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine listens, with `tls` or without; `prefix` is the path in front of its `/v1`, empty as a rule."""

    host: str
    port: int
    prefix: str = ""
    tls: bool = False

    @property
    def authority(self) -> str:
        """The value of a `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(url: str) -> Address:
    """`http://host:port[/prefix]`, or https, as an address. Raises ValueError naming what is wrong with it."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"engine address {url!r}: expected http://host:port or https://host:port")
    port = parts.port or _PORTS[parts.scheme]
    return Address(parts.hostname, port, parts.path.rstrip("/"), parts.scheme == "https")


@dataclass(frozen=True, slots=True)
class Target:
    """One endpoint as a leg sees it. `header` goes into every request; `way` is how it hands off, None for not at all;
    `bootstrap` is where the legs of a concurrent hand-off from it meet, `rank` its data-parallel rank."""

    address: Address
    dialect: Dialect
    way: Way | None
    header: bytes
    bootstrap: Address
    rank: int | None


def _target(endpoint: Endpoint) -> Target:
    address, speaks = parse_address(endpoint.url), dialect(endpoint.dialect)
    bootstrap = Address(address.host, endpoint.bootstrap_port)
    way, rank = way_of(speaks, endpoint), endpoint.data_parallel_rank
    return Target(address, speaks, way, rank_header(endpoint), bootstrap, rank)


class EndpointDirectory:
    """Targets by endpoint."""

    def __init__(self, endpoints: Iterable[Endpoint] = ()) -> None:
        self._targets: dict[EndpointId, Target] = {}
        self.replace(endpoints)

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """The fleet is now exactly these. Raises ValueError for a bad address or dialect and changes nothing then."""
        self._targets = {endpoint.id: _target(endpoint) for endpoint in endpoints}

    def find(self, endpoint: EndpointId) -> Target | None:
        """None when the endpoint has left the fleet."""
        return self._targets.get(endpoint)

    def bootstraps(self) -> frozenset[Address]:
        """Where the legs of concurrent hand-offs meet."""
        return frozenset(target.bootstrap for target in self._targets.values())

    def addresses(self) -> frozenset[Address]:
        return frozenset(target.address for target in self._targets.values())
