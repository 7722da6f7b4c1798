"""Whom a gateway takes a request's sender for."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.gateway.access import Access, TrustedHeaders
from vicinal.gateway.caller import Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.http_message import HttpRequest
from vicinal.gateway.keys import HashedKey, KeyRing, hash_of, new_key
from vicinal.gateway.peers import Peers

CLAIMS = {b"x-tenant": b"other", b"x-vicinal-class": b"batch"}
NAME, KEY = new_key()
SENT = {b"authorization": f"Bearer {KEY}".encode()}


def ring() -> KeyRing:
    return KeyRing([HashedKey(NAME, bytes.fromhex(hash_of(KEY)), Caller("acme", service=BATCH))])


def request(headers: dict[bytes, bytes], peer: str = "127.0.0.1") -> HttpRequest:
    return HttpRequest(b"POST", b"/v1/completions", headers, b"", peer)


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


def test_a_claim_counts_from_a_named_peer_only(caplog: pytest.LogCaptureFixture) -> None:
    counters = GatewayCounters()
    trusted = TrustedHeaders("x-tenant", "x-vicinal-class", peers=("10.1.0.0/16", "2001:db8::7"))
    for keys, own in ((None, Caller()), (ring(), Caller("acme", service=BATCH))):
        access = Access(trusted, keys, counters)
        for peer in ("10.1.200.3", "::ffff:10.1.0.1", "2001:db8::7", "2001:db8::7%eth0"):
            assert access.caller(request(SENT | CLAIMS, peer)).tenant == "other"
        for peer in ("10.2.0.1", "127.0.0.1", "2001:db8::8", "::ffff:10.2.0.1", "", "front"):
            assert access.caller(request(SENT | CLAIMS, peer)) == own
            assert access.caller(request(SENT | {b"x-vicinal-class": b"none such"}, peer)) == own
            assert access.caller(request(SENT, peer)) == own
    assert counters.claims_ignored == 24
    assert [record.message for record in caplog.records] == [
        "x-tenant and x-vicinal-class from 10.2.0.1 are ignored, now and later: access.trusted_peers does not name it"
    ] * 2
    assert access.operator(CLAIMS).tenant == "other"


def test_where_nobody_is_trusted_nothing_is_said_but_it_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    counters = GatewayCounters()
    access = Access(TrustedHeaders("x-tenant", peers=()), None, counters)
    assert access.caller(request(CLAIMS)) == Caller()
    assert (counters.claims_ignored, caplog.records) == (1, [])


@given(st.ip_addresses())
def test_a_peer_is_in_a_network_by_its_number(address) -> None:
    networks = ("10.0.0.0/8", "192.0.2.7", "fe80::/10")
    said = address.ipv4_mapped if address.version == 6 and address.ipv4_mapped else address
    expected = any(said in ip_network(each) for each in networks)
    peers = Peers(networks)
    assert [str(address) in peers for _ in range(2)] == [expected] * 2
