"""Peers by address: those whose word about a request counts, because the operator named them."""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

LOOPBACK = ("127.0.0.0/8", "::1/128")
_REMEMBERED_MAX = 4096


class Peers:
    """The addresses and networks in `named`. Raises ValueError for what is neither."""

    def __init__(self, named: Iterable[str]) -> None:
        self._networks = tuple(ip_network(each) for each in named)
        self._known: dict[str, bool] = {}

    def __contains__(self, address: str) -> bool:
        found = self._known.get(address)
        if found is None:
            if len(self._known) >= _REMEMBERED_MAX:
                self._known.clear()
            found = self._known[address] = self._is_named(address)
        return found

    def _is_named(self, address: str) -> bool:
        try:
            parsed: IPv4Address | IPv6Address = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        return any(parsed in network for network in self._networks)
