"""The files of [access] as key rings; they and those of [tls] again when they change; who may ask without a key."""

import datetime
import logging
import math
from collections.abc import Iterator
from pathlib import Path

from vicinal.config.access_rules import is_loopback
from vicinal.config.cluster import services
from vicinal.config.fleet import Config
from vicinal.config.keys import admin_keys, client_keys
from vicinal.config.problems import ConfigError, Problem
from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import INTERACTIVE
from vicinal.gateway.admin import AdminServer
from vicinal.gateway.app import Gateway
from vicinal.gateway.caller import Caller
from vicinal.gateway.forwarding import Forwarding
from vicinal.gateway.keys import HashedKey, KeyRing
from vicinal.wiring.tls import renew_certificates, tls_files

log = logging.getLogger("vicinal")

ENGINE_KEY_CHARS_MAX = 4096


def client_ring(config: Config) -> KeyRing | None:
    """The clients' keys; None where nobody needs one. Raises ConfigError naming file and line."""
    if not config.access.keys_file:
        return None
    classes = {service.name: service for service in services(config)}
    return KeyRing(
        HashedKey(
            entry.id,
            bytes.fromhex(entry.sha256),
            Caller(
                TenantId(entry.tenant),
                frozenset(map(ModelId, entry.models)) if entry.models else None,
                classes[entry.service] if entry.service else INTERACTIVE,
            ),
            _unix_s(entry.expires),
        )
        for entry in client_keys(config.access.keys_file, classes)
    )


def admin_ring(config: Config) -> KeyRing | None:
    """The operators' keys; None where nobody needs one. Raises ConfigError naming file and line."""
    if not config.access.admin_keys_file:
        return None
    return KeyRing(
        HashedKey(entry.id, bytes.fromhex(entry.sha256), expires_unix_s=_unix_s(entry.expires))
        for entry in admin_keys(config.access.admin_keys_file)
    )


def engine_key(config: Config) -> str:
    """What engines take for their key; empty for none. Raises ConfigError, which does not quote the file."""
    name = config.access.engine_key_file
    if not name:
        return ""
    try:
        key = Path(name).read_text(encoding="ascii").strip()
    except OSError as error:
        raise ConfigError([Problem(name, "", error.strerror or "cannot be read")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([Problem(name, "", f"byte {error.start} is not ASCII, as a key is")]) from None
    if not key or len(key) > ENGINE_KEY_CHARS_MAX or not key.isprintable() or " " in key:
        words = f"expected one key and nothing else: printable, without spaces, at most {ENGINE_KEY_CHARS_MAX} letters"
        raise ConfigError([Problem(name, "", words)])
    return key


def forwarding(config: Config) -> Forwarding:
    """Which headers engines get. Raises like `engine_key`."""
    return Forwarding(clients_own=not config.access.keys_file, engine_key=engine_key(config))


def access_files(config: Config) -> tuple[Path, ...]:
    """The files whose changes are taken over while a gateway runs."""
    keys = (config.access.keys_file, config.access.admin_keys_file)
    return (*(Path(name) for name in keys if name), *tls_files(config))


def open_doors(config: Config) -> Iterator[str]:
    """What an operator may not know to be open."""
    server = config.server
    if not config.access.keys_file and not is_loopback(server.host):
        yield (
            f"everybody who reaches {server.host}:{server.port} may use the models: give access.keys_file, or see to "
            "it that only your own front reaches it (docs/access.md)"
        )


class AccessRenewal:
    """Reads keys and certificates again. What is wrong with a file is logged, and nothing changes then."""

    def __init__(self, config: Config, gateway: Gateway, admin: AdminServer | None = None) -> None:
        self._config = config
        self._gateway = gateway
        self._admin = admin

    async def renew(self) -> None:
        try:
            clients, operators = client_ring(self._config), admin_ring(self._config)
            renew_certificates(self._config, self._gateway.tls, self._gateway.engine_tls)
        except ConfigError as error:
            log.error("keys and certificates stay as they were:\n%s", error)
            return
        self._gateway.access.keys = clients
        if self._admin is not None:
            self._admin.keys = operators
        rings = (("clients", clients), ("operators", operators))
        said = ", ".join(f"{len(ring)} of {whose}" for whose, ring in rings if ring is not None)
        log.warning("keys and certificates were read again; keys: %s", said or "none are asked for")


def _unix_s(day: datetime.date | None) -> float:
    if day is None:
        return math.inf
    return datetime.datetime.combine(day, datetime.time(), datetime.UTC).timestamp()
