"""API keys: secrets of 256 random bits, kept as their SHA-256 (docs/decisions/0022-access.md).

A key is `vk-ID-SECRET`. The id is no secret: it finds the one hash to compare with, and may be shown. What is hashed is
the whole key. A slow hash would protect guessable secrets; nobody guesses 256 bits, so a fast one is as good.
"""

import hmac
import math
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import sha256

from vicinal.gateway.caller import ANYBODY, Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.errors import ApiError

PREFIX = "vk-"
ID_DIGITS = 12
_ID = slice(len(PREFIX), len(PREFIX) + ID_DIGITS)
_SCHEME = b"bearer"


@dataclass(frozen=True, slots=True)
class HashedKey:
    """A key as it is kept: `sha256` of the whole of it. It opens nothing from `expires_unix_s` on."""

    id: str
    sha256: bytes
    caller: Caller = ANYBODY
    expires_unix_s: float = math.inf


def new_key() -> tuple[str, str]:
    """The id of a new key, and the key."""
    name = secrets.token_hex(ID_DIGITS // 2)
    return name, f"{PREFIX}{name}-{secrets.token_hex(32)}"


def hash_of(key: str) -> str:
    """In hexadecimal digits."""
    return sha256(key.encode()).hexdigest()


class KeyRing:
    """The keys of one address. `clock` gives seconds since 1970."""

    def __init__(self, keys: Iterable[HashedKey], clock: Callable[[], float] = time.time) -> None:
        self._keys = {key.id.encode(): key for key in keys}
        self._clock = clock

    def __len__(self) -> int:
        return len(self._keys)

    def caller(self, authorization: bytes | None) -> Caller:
        """Whose key an `Authorization` header has. Raises ApiError 401, which never quotes what was sent."""
        if authorization is None:
            raise _refusal("no API key; send it as `Authorization: Bearer KEY`")
        scheme, _, sent = authorization.partition(b" ")
        if scheme.lower() != _SCHEME:
            raise _refusal("the Authorization header has no bearer token; send `Authorization: Bearer KEY`")
        sent = sent.strip()
        key = self._keys.get(sent[_ID])
        if key is None or not hmac.compare_digest(sha256(sent).digest(), key.sha256):
            raise _refusal("this API key is not known here")
        if self._clock() >= key.expires_unix_s:
            raise _refusal("this API key has expired")
        return key.caller


def _refusal(words: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_API_KEY, words)
