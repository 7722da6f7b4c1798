"""Whom a gateway takes a request's sender for."""

import pytest

from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.gateway.access import Access, TrustedHeaders
from vicinal.gateway.caller import Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.http_message import HttpRequest
from vicinal.gateway.keys import HashedKey, KeyRing, hash_of, new_key

CLAIMS = {b"x-tenant": b"other", b"x-vicinal-class": b"batch"}
NAME, KEY = new_key()
SENT = {b"authorization": f"Bearer {KEY}".encode()}


def ring() -> KeyRing:
    return KeyRing([HashedKey(NAME, bytes.fromhex(hash_of(KEY)), Caller("acme", service=BATCH))])


def request(headers: dict[bytes, bytes]) -> HttpRequest:
    return HttpRequest(b"POST", b"/v1/completions", headers, b"")


def test_headers_count_only_where_they_are_trusted() -> None:
    access = Access(TrustedHeaders(), None, GatewayCounters())
    assert access.caller(request(CLAIMS)) == Caller()
    access = Access(TrustedHeaders("x-tenant", "x-vicinal-class"), None, GatewayCounters())
    assert access.caller(request(CLAIMS)) == Caller("other", service=BATCH)
    assert access.caller(request({})) == Caller("default", service=INTERACTIVE)
    with pytest.raises(ApiError, match="known: interactive, batch") as refused:
        access.caller(request({b"x-vicinal-class": b"best"}))
    assert (refused.value.status, refused.value.param) == (400, "x-vicinal-class")


def test_a_key_says_the_tenant_and_a_claim_does_not() -> None:
    counters = GatewayCounters()
    access = Access(TrustedHeaders(), ring(), counters)
    assert access.caller(request(SENT | CLAIMS)) == Caller("acme", service=BATCH)
    with pytest.raises(ApiError):
        access.caller(request(CLAIMS))
    assert counters.keys_refused == 1


def test_a_front_that_is_trusted_needs_a_key_and_speaks_for_its_tenants() -> None:
    access = Access(TrustedHeaders("x-tenant", "x-vicinal-class"), ring(), GatewayCounters())
    assert access.caller(request(SENT | CLAIMS)) == Caller("other", service=BATCH)
    with pytest.raises(ApiError):
        access.caller(request(CLAIMS))
    access.keys = None
    assert access.caller(request(CLAIMS)).tenant == "other"
