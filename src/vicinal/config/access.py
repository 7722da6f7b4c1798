"""The section that says who may ask for what."""

from typing import Annotated

from msgspec import Meta, Struct


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
