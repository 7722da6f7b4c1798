"""One question to one engine: how do you tokenise this? `POST /tokenize`, as vLLM and SGLang have it."""

import aiohttp
import msgspec

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import ModelId
from vicinal.tokenizer.probes import Probe

ANSWER_BYTES_MAX = 1 << 20


class _Answer(msgspec.Struct):
    tokens: list[int]


_answer = msgspec.json.Decoder(_Answer)


class CannotBeAskedError(Exception):
    """The engine answers, and not with tokens. Asking again will not help."""


class SilentError(Exception):
    """The engine does not answer now."""


async def ask(
    session: aiohttp.ClientSession, endpoint: Endpoint, model: ModelId, probe: Probe, timeout: aiohttp.ClientTimeout
) -> list[int] | None:
    """The engine's ids; None when it finds the prompt itself wrong (400). Raises CannotBeAskedError, SilentError."""
    body = msgspec.json.encode({"model": model, **probe.fields})
    url = endpoint.url.rstrip("/") + "/tokenize"
    try:
        async with session.post(
            url, data=body, headers={"Content-Type": "application/json"}, timeout=timeout
        ) as answer:
            if answer.status == 400:
                return None
            if answer.status >= 500 and answer.status != 501:
                raise SilentError
            if answer.status != 200:
                raise CannotBeAskedError(f"it answers /tokenize with status {answer.status}")
            raw = bytearray()
            async for chunk in answer.content.iter_any():
                raw += chunk
                if len(raw) > ANSWER_BYTES_MAX:
                    raise CannotBeAskedError(f"its answer to /tokenize has more than {ANSWER_BYTES_MAX} bytes")
    except (aiohttp.ClientError, OSError, TimeoutError):
        raise SilentError from None
    try:
        return _answer.decode(raw).tokens
    except msgspec.MsgspecError as error:
        raise CannotBeAskedError(f"its answer to /tokenize has no tokens: {error}") from None
