"""How many connections each client address has open."""

from collections import Counter
from ipaddress import IPv6Address, ip_address


class AddressCounts:
    """`most` of one address, 0 for no bound. An IPv6 client is known by its /64: the rest is its own to choose."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def add(self, address: str) -> bool:
        """Count one more, which `remove` must follow. False when it is one too many."""
        if not self._most:
            return True
        key = _key(address)
        self._open[key] += 1
        return self._open[key] <= self._most

    def remove(self, address: str) -> None:
        if not self._most:
            return
        key = _key(address)
        self._open[key] -= 1
        if not self._open[key]:
            del self._open[key]


def _key(address: str) -> str:
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address  # a Unix socket's peer has none
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return parsed.packed[:8].hex()
