"""What is impossible about certificates."""

from collections.abc import Iterator

from vicinal.config.fleet import Config
from vicinal.config.problems import Key


def tls_findings(config: Config) -> Iterator[tuple[Key, str]]:
    """What is impossible about the certificates of `config`, and its cure."""
    tls = config.tls
    for certificate, key in (("certificate", "key"), ("engine_certificate", "engine_key")):
        for given, missing in ((certificate, key), (key, certificate)):
            if getattr(tls, given) and not getattr(tls, missing):
                yield ("tls", given), f"means nothing without tls.{missing}; give both or neither"
    if tls.client_ca and not tls.certificate:
        yield ("tls", "client_ca"), "clients show certificates over TLS only; give tls.certificate and tls.key too"
