"""What is impossible about who may ask for what."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network

from vicinal.config.fleet import Config
from vicinal.config.problems import Key


def is_loopback(host: str) -> bool:
    """Only this machine reaches what listens at `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def access_findings(config: Config) -> Iterator[tuple[Key, str]]:
    """What is impossible about who may ask in `config`, and its cure."""
    server = config.server
    for named in config.access.trusted_peers:
        try:
            ip_network(named)
        except ValueError as error:
            yield (
                ("access", "trusted_peers"),
                f"{error}: expected addresses and networks, as 10.0.0.7 and 10.0.0.0/24",
            )
    if not is_loopback(server.admin_host) and not config.access.admin_keys_file:
        yield (
            ("server", "admin_host"),
            f'"{server.admin_host}" lets others than this machine reach metrics, state and copies without a key: give '
            "access.admin_keys_file (`vicinal key --admin` makes a key), or leave it at 127.0.0.1",
        )
