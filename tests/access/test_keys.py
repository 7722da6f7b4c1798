"""Keys: what opens, what does not, and that nothing of a key comes back in a refusal."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.gateway.caller import Caller
from vicinal.gateway.errors import ApiError
from vicinal.gateway.keys import HashedKey, KeyRing, hash_of, new_key

ACME = Caller("acme")


class Ring:
    def __init__(self) -> None:
        self.now_s = 1000.0
        made = [new_key() for _ in range(3)]
        self.keys = [key for _, key in made]
        hashed = [
            HashedKey(name, bytes.fromhex(hash_of(key)), Caller(f"t{n}"), 2000.0 if n == 2 else float("inf"))
            for n, (name, key) in enumerate(made)
        ]
        self.ring = KeyRing(hashed, lambda: self.now_s)

    def refusal(self, sent: bytes | None) -> str:
        with pytest.raises(ApiError) as refused:
            self.ring.caller(sent)
        assert (refused.value.status, refused.value.code) == (401, "invalid_api_key")
        return refused.value.message


def test_each_key_opens_for_its_own_tenant() -> None:
    ring = Ring()
    for scheme in (b"Bearer ", b"bearer ", b"BEARER  "):
        found = [ring.ring.caller(scheme + key.encode()).tenant for key in ring.keys]
        assert found == ["t0", "t1", "t2"]


def test_a_key_expires_at_its_second() -> None:
    ring = Ring()
    sent = f"Bearer {ring.keys[2]}".encode()
    ring.now_s = 1999.9
    assert ring.ring.caller(sent).tenant == "t2"
    ring.now_s = 2000.0
    assert "expired" in ring.refusal(sent)


def test_what_is_no_key_opens_nothing_and_is_told_how_it_is_sent() -> None:
    ring = Ring()
    assert "Authorization: Bearer KEY" in ring.refusal(None)
    for sent in (b"", b"Basic eDp5", b"Token x", ring.keys[0].encode()):
        assert "Authorization: Bearer KEY" in ring.refusal(sent)
    assert "not known" in ring.refusal(b"Bearer")
    _, strange = new_key()
    assert "not known" in ring.refusal(f"Bearer {strange}".encode())


@given(st.integers(0, 83), st.characters(codec="ascii", categories=["L", "N"]), st.integers(0, 1))
def test_one_other_letter_opens_nothing_and_is_not_quoted(at: int, letter: str, which: int) -> None:
    ring = Ring()
    key = ring.keys[which]
    at %= len(key)
    other = key[:at] + letter + key[at + 1 :]
    if other == key:
        assert ring.ring.caller(f"Bearer {other}".encode()).tenant == f"t{which}"
    else:
        assert other[16:] not in ring.refusal(f"Bearer {other}".encode())


@given(st.binary(max_size=200))
def test_whatever_is_sent_is_refused_with_401(sent: bytes) -> None:
    assert Ring().refusal(sent)
    assert Ring().refusal(b"Bearer " + sent)


def test_keys_are_long_random_and_of_one_form() -> None:
    made = [new_key() for _ in range(100)]
    assert len({key for _, key in made}) == len({name for name, _ in made}) == 100
    for name, key in made:
        assert re.fullmatch(rf"vk-{name}-[0-9a-f]{{64}}", key)
