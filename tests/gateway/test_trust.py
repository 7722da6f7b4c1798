"""Trust groups: who shares prefixes with whom, in our hashes and in what engines are sent."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.events import PrefillDone, RequestFinished
from vicinal.engines.kv_fields import extra_key_bytes
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.caller import ANYBODY, DEFAULT_TENANT, Caller
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.prompts import pack
from vicinal.gateway.trust import TrustGroups
from vicinal.kvindex.hashing import chain

GROUPS = TrustGroups({"a1": "a", "a2": "a", "b1": "b"}, unnamed=DEFAULT_TENANT)
ISOLATED = TrustGroups({"a1": "a", "a2": "a"}, isolate=True, unnamed=DEFAULT_TENANT)
IDS = list(range(1, 9))
NAMES = st.text(max_size=12)
FORBIDDEN = set("@/\\\x00")


@pytest.mark.mission("B10")
def test_by_default_all_tenants_share_and_a_clients_salt_is_its_own_business() -> None:
    one = TrustGroups()
    assert not one.several
    assert [one.salt(tenant, own) for tenant in ("x", "y") for own in (None, "s")] == [None, "s", None, "s"]


@given(
    groups=st.dictionaries(NAMES, NAMES, max_size=4),
    isolate=st.booleans(),
    who=st.lists(st.tuples(NAMES, st.none() | st.text(min_size=1, max_size=12)), min_size=2, max_size=6),
)
def test_two_requests_share_a_salt_exactly_when_group_and_own_salt_are_the_same(
    groups: dict, isolate: bool, who: list
) -> None:
    trust = TrustGroups(groups, isolate, DEFAULT_TENANT)

    def shares(tenant: str) -> object:
        if tenant in groups:
            return ("group", groups[tenant])
        return ("tenant", tenant) if isolate and tenant != DEFAULT_TENANT else "default"

    for (tenant, own), (other, others_own) in product(who, who):
        together = shares(tenant) == shares(other) and own == others_own
        if trust.several:
            assert (trust.salt(tenant, own) == trust.salt(other, others_own)) == together
        else:
            assert trust.salt(tenant, own) == own


@given(tenant=NAMES, own=st.none() | st.text(min_size=1, max_size=300))
def test_no_client_can_write_the_salt_of_a_group_and_engines_take_every_salt(tenant: str, own: str | None) -> None:
    salts = {GROUPS.salt(name, None) for name in ("a1", "b1", "stranger")}
    assert len(salts) == 3
    salt = GROUPS.salt(tenant, own)
    assert salt is not None
    assert len(salt) <= 128
    assert not FORBIDDEN & set(salt)
    for stolen in salts:
        assert GROUPS.salt("stranger", stolen) not in salts


def parsed(trust: TrustGroups, tenant: str | None, salt: object = None):
    parser = RequestParser(
        [ServedModel("m", 4, 100)],
        OutputLengths(),
        GatewayCounters(),
        trust=trust,
    )
    body = {"model": "m", "prompt": IDS} | ({} if salt is None else {"cache_salt": salt})
    return parser.completion("r", json.dumps(body).encode(), Caller(tenant) if tenant else ANYBODY)


@pytest.mark.mission("B10")
def test_our_hashes_are_those_that_the_engine_makes_with_that_salt() -> None:
    for trust, tenant in ((GROUPS, "a1"), (GROUPS, "stranger"), (ISOLATED, "stranger"), (ISOLATED, None)):
        request = parsed(trust, tenant)
        assert request.salt is not None
        assert request.request.block_hashes == chain(pack(IDS), 4, extra_keys=(extra_key_bytes([request.salt]),))
    hashes = [parsed(GROUPS, tenant).request.block_hashes for tenant in ("a1", "a2", "b1", "c1", "c2", None)]
    assert [hashes.index(each) for each in hashes] == [0, 0, 2, 3, 3, 3]
    hashes = [parsed(ISOLATED, tenant).request.block_hashes for tenant in ("a1", "a2", "b1", "c1", "c1", None)]
    assert [hashes.index(each) for each in hashes] == [0, 0, 2, 3, 3, 5]


def test_prompts_matched_by_text_are_kept_apart_too() -> None:
    def text(tenant: str) -> bytes:
        parser = RequestParser([ServedModel("m", 4, 100)], OutputLengths(), GatewayCounters(), trust=GROUPS)
        body = {"model": "m", "messages": [{"role": "user", "content": "the same words for all"}]}
        return parser.chat("r", json.dumps(body).encode(), Caller(tenant)).request.block_hashes

    assert text("a1") == text("a2")
    assert not {*_split(text("a1"))} & {*_split(text("b1"))}


def _split(packed: bytes) -> list[bytes]:
    return [packed[at : at + 8] for at in range(0, len(packed), 8)]


def test_an_empty_salt_is_the_clients_fault() -> None:
    for trust in (TrustGroups(), GROUPS):
        with pytest.raises(ApiError) as refused:
            parsed(trust, "a1", "")
        assert (refused.value.status, refused.value.param) == (400, "cache_salt")


SALTS = [
    b"",
    b',"cache_salt":"mine"',
    b',"cache_salt":null',
    b',"cache\\u005fsalt":"mine"',
    b',"cache_salt":"one","cache_salt":"mine"',
]


@pytest.mark.mission("B10")
@pytest.mark.parametrize("own", SALTS)
@pytest.mark.parametrize("first", [True, False])
async def test_both_legs_carry_the_salt_of_the_group_and_no_other(world, kit, own, first) -> None:
    """However the client writes its own: once, twice, escaped, or as null."""
    whole = {"choices": [{"text": "Hi"}], "usage": {"prompt_tokens": 8, "completion_tokens": 2}}

    async def answer(seen, reply) -> None:
        await reply.json(kit.prefill_answer() if b"do_remote_decode" in seen.raw else whole)

    p, d = await world.engine("p", answer), await world.engine("d", answer)
    kit.hands_off(world.scheduler)
    await world.start(trusted=TrustedHeaders(tenant="x-tenant"), trust=GROUPS)
    rest = b'"model":"m","prompt":[1,2,3,4,5,6,7,8]'
    body = b"{" + (own[1:] + b"," + rest if first and own else rest + own) + b"}"
    client = await world.client()
    client.send(
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nx-tenant: a1\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    assert (await client.response()).status == 200
    await world.scheduler.saw(PrefillDone)
    await world.scheduler.saw(RequestFinished)
    expected = GROUPS.salt("a1", "mine" if b"mine" in own else None)
    for engine in (p, d):
        (seen,) = engine.seen
        assert seen.body["cache_salt"] == expected
        assert seen.raw.count(b"salt") == 1
        assert seen.body["prompt"] == IDS


async def test_with_one_group_a_body_passes_as_it_came(world, kit) -> None:
    body = b'{ "model" : "m", "prompt": [1, 2], "cache_salt": "mine" }'

    async def answer(seen, reply) -> None:
        await reply.json({"choices": [{"text": "Hi"}]})

    d = await world.engine("d", answer)
    kit.goes_whole(world.scheduler)
    await world.start()
    assert (await world.ask(body)).status == 200
    assert d.seen[0].raw == body
