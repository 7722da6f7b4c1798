"""The files of [tls] as contexts for both sides of the gateway.

A context stays the same while its certificate is renewed: new handshakes show the new one. A file is tried in a context
of its own first, since one that does not go with its key would leave a half-changed context behind.
"""

import ssl
from pathlib import Path

from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Problem

_ALPN = ["http/1.1"]


def server_tls(config: Config) -> ssl.SSLContext | None:
    """For clients and operators; None where they come without TLS. Raises ConfigError naming file and setting."""
    tls = config.tls
    if not tls.certificate:
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(_ALPN)
    _show(context, tls.certificate, tls.key, "certificate")
    if tls.client_ca:
        _believe(context, tls.client_ca, "client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def engine_tls(config: Config) -> ssl.SSLContext | None:
    """For engines with https addresses; None where the system's usual one does. Raises like `server_tls`."""
    tls = config.tls
    if not tls.engine_ca and not tls.engine_certificate:
        return None
    if tls.engine_ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        _believe(context, tls.engine_ca, "engine_ca")
    else:
        context = ssl.create_default_context()
    context.set_alpn_protocols(_ALPN)
    if tls.engine_certificate:
        _show(context, tls.engine_certificate, tls.engine_key, "engine_certificate")
    return context


def renew_certificates(config: Config, server: ssl.SSLContext | None, engine: ssl.SSLContext | None) -> None:
    """Show what now stands in the files of certificates. Raises ConfigError, and changes nothing then. CAs stay."""
    tls = config.tls
    server_tls(config)
    engine_tls(config)
    if server is not None:
        _show(server, tls.certificate, tls.key, "certificate")
    if engine is not None and tls.engine_certificate:
        _show(engine, tls.engine_certificate, tls.engine_key, "engine_certificate")


def tls_files(config: Config) -> tuple[Path, ...]:
    """Those whose changes are taken over while a gateway runs."""
    tls = config.tls
    names = (tls.certificate, tls.key, tls.engine_certificate, tls.engine_key)
    return tuple(Path(name) for name in names if name)


def _show(context: ssl.SSLContext, certificate: str, key: str, setting: str) -> None:
    for name in (certificate, key):
        _read(name, setting)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            words = f"is no key of the certificate in {certificate}; give the two that belong together"
            raise ConfigError([Problem(key, f"tls.{setting}", words)]) from None
        words = f"expected a certificate here, and its private key in {key}, both PEM ({error.reason or error})"
        raise ConfigError([Problem(certificate, f"tls.{setting}", words)]) from None
    except _PasswordError:
        words = "the private key has a password, and nobody is there to type it; store it without one"
        raise ConfigError([Problem(key, f"tls.{setting}", words)]) from None


def _believe(context: ssl.SSLContext, name: str, setting: str) -> None:
    _read(name, setting)
    try:
        context.load_verify_locations(name)
    except ssl.SSLError as error:
        words = f"expected PEM certificates of CAs ({error.reason or error})"
        raise ConfigError([Problem(name, f"tls.{setting}", words)]) from None


def _read(name: str, setting: str) -> None:
    """ssl's own errors do not say which file cannot be read."""
    try:
        Path(name).read_bytes()
    except OSError as error:
        raise ConfigError([Problem(name, f"tls.{setting}", error.strerror or "cannot be read")]) from None


class _PasswordError(Exception):
    """A private key is locked."""


def _no_password() -> str:
    raise _PasswordError
