"""The section that says who may ask for what, and what is impossible about it."""

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta, Struct

from vicinal.config.problems import Key

if TYPE_CHECKING:
    from vicinal.config.fleet import Config


class Access(Struct, frozen=True, kw_only=True):
    """Who may ask the gateway, and as whom it asks engines (access.md). Paths are from the working directory."""

    keys_file: Annotated[
        str,
        Meta(
            description="File with the hashes of the clients' API keys (`vicinal key` makes them), read again when it "
            "changes. Empty: everybody who can connect may ask, as tenant `default`."
        ),
    ] = ""
    admin_keys_file: Annotated[
        str,
        Meta(
            description="The same for the operator's address. Needed where `server.admin_host` is not loopback; empty: "
            "whoever can connect is an operator."
        ),
    ] = ""
    engine_key_file: Annotated[
        str,
        Meta(description="File with the one key that all engines take (vLLM: `--api-key`), as it is. Empty: none."),
    ] = ""
    trusted_peers: Annotated[
        tuple[str, ...],
        Meta(
            description="Addresses and networks (10.0.0.0/24) of your own fronts: with `server.trust_tenant_header` "
            "the tenant's and the class's headers count from these, and are ignored from others."
        ),
    ] = ("127.0.0.0/8", "::1/128")


def is_loopback(host: str) -> bool:
    """Only this machine reaches what listens at `host`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def access_findings(config: "Config") -> Iterator[tuple[Key, str]]:
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
