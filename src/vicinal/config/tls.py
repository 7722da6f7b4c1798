"""The section with certificates."""

from typing import Annotated

from msgspec import Meta, Struct


class Tls(Struct, frozen=True, kw_only=True):
    """Files of certificates, all PEM, read again when they change (access.md). Paths are from the working directory."""

    certificate: Annotated[
        str,
        Meta(
            description="What the API and the operator's address show to clients: the server's certificate, and after "
            "it the chain up to a CA that they know. Empty: both speak without TLS."
        ),
    ] = ""
    key: Annotated[str, Meta(description="Its private key, without a password.")] = ""
    client_ca: Annotated[
        str,
        Meta(description="CAs of the clients' certificates. With it a client without one is not let in, at both."),
    ] = ""
    engine_ca: Annotated[
        str, Meta(description="CAs of the engines' certificates (`https://` addresses). Empty: those of the system.")
    ] = ""
    engine_certificate: Annotated[
        str, Meta(description="What the gateway shows to engines that want a client's certificate. Empty: nothing.")
    ] = ""
    engine_key: Annotated[str, Meta(description="The private key of `engine_certificate`, without a password.")] = ""

    @property
    def scheme(self) -> str:
        """How clients and operators speak to the gateway."""
        return "https" if self.certificate else "http"
