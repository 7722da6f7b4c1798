"""Who is asking: a key says it, or a header, where whoever sends it is trusted with that."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from vicinal.domain.ids import TenantId
from vicinal.domain.request import BATCH, INTERACTIVE, ServiceClass
from vicinal.gateway.caller import ANYBODY, Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError, invalid
from vicinal.gateway.forwarding import AUTHORIZATION
from vicinal.gateway.http_message import HttpRequest
from vicinal.gateway.keys import KeyRing
from vicinal.gateway.peers import LOOPBACK, Peers

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrustedHeaders:
    """Headers that the operator's own front sets; None: there is no such header. Names in lower case.

    `tenant` names the header with the tenant; `service_class` the one with the class of service, by name. `peers` are
    believed, as networks or addresses; what others say with these headers is ignored.
    """

    tenant: str | None = None
    service_class: str | None = None
    classes: tuple[ServiceClass, ...] = (INTERACTIVE, BATCH)
    peers: tuple[str, ...] = LOOPBACK


class Access:
    """`keys` may be replaced at any time; None: nobody needs one, and all are the default tenant."""

    def __init__(self, trusted: TrustedHeaders, keys: KeyRing | None, counters: GatewayCounters) -> None:
        self.keys = keys
        self._trusted = trusted
        self._tenant = None if trusted.tenant is None else trusted.tenant.encode()
        self._service = None if trusted.service_class is None else trusted.service_class.encode()
        self._peers = Peers(trusted.peers)
        self._told_of_claims = not trusted.peers
        self._classes = {service.name: service for service in trusted.classes}
        self._counters = counters

    def admits(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a request with these headers comes from somebody who is known, or needs not be. Nothing is counted:
        `caller` refuses it."""
        if self.keys is None:
            return True
        try:
            self.keys.caller(headers.get(AUTHORIZATION))
        except ApiError:
            return False
        return True

    def caller(self, request: HttpRequest) -> Caller:
        """Who sent `request`. Raises ApiError: 401 without a key that is known, 400 for an unknown class of service."""
        caller = ANYBODY
        if self.keys is not None:
            try:
                caller = self.keys.caller(request.headers.get(AUTHORIZATION))
            except ApiError:
                self._counters.keys_refused += 1
                raise
        headers = request.headers
        if self._tenant in headers or self._service in headers:
            if request.peer in self._peers:
                return self._told(caller, headers)
            self._ignore(request.peer)
        return caller

    def operator(self, headers: Mapping[bytes, bytes]) -> Caller:
        """On whose behalf an operator asks. Raises ApiError 400 for an unknown class of service."""
        return self._told(ANYBODY, headers)

    def _told(self, caller: Caller, headers: Mapping[bytes, bytes]) -> Caller:
        """`caller`, as its headers have it."""
        tenant, service = caller.tenant, caller.service
        if self._tenant is not None and (named := headers.get(self._tenant)):
            tenant = TenantId(named.decode("latin-1"))
        if self._service is not None and (named := headers.get(self._service)):
            service = self._class_of(named.decode("latin-1"))
        return Caller(tenant, caller.models, service)

    def _ignore(self, peer: str) -> None:
        self._counters.claims_ignored += 1
        if not self._told_of_claims:
            self._told_of_claims = True
            names = " and ".join(filter(None, (self._trusted.tenant, self._trusted.service_class)))
            _log.warning("%s from %s are ignored, now and later: access.trusted_peers does not name it", names, peer)

    def _class_of(self, name: str) -> ServiceClass:
        service = self._classes.get(name)
        if service is None:
            known = ", ".join(self._classes)
            message = f"unknown class of service {name[:100]!r}; known: {known}"
            raise invalid(message, param=self._trusted.service_class)
        return service
