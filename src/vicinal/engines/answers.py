"""What all engines that speak OpenAI's API answer alike: usage, and the end of a stream."""

from dataclasses import dataclass

import msgspec

_DONE_EVENT = b"data: [DONE]"
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n")
_LINE_STARTS = (b"", b"\n")


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class UsageBody(msgspec.Struct):
    """`usage` as it comes."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None


class _UsageOnly(msgspec.Struct):
    usage: UsageBody | None = None


_usage_only = msgspec.json.Decoder(_UsageOnly)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as an engine states them; None where it is silent."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


def usage_of(body: UsageBody | None) -> Usage:
    if body is None:
        return Usage()
    details = body.prompt_tokens_details
    return Usage(body.prompt_tokens, body.completion_tokens, None if details is None else details.cached_tokens)


def whole_usage(body: bytes) -> Usage:
    """Usage of an answer that was not streamed; all None when the body states none or cannot be read."""
    return usage_if_whole(body) or Usage()


def usage_if_whole(body: bytes) -> Usage | None:
    """The same, but None when the body is no JSON object: an answer that is cut anywhere is none."""
    try:
        return usage_of(_usage_only.decode(body).usage)
    except msgspec.ValidationError:
        return Usage() if is_object(body) else None
    except (msgspec.DecodeError, RecursionError):
        return None


def is_object(body: bytes) -> bool:
    """The body is a JSON object, whole."""
    try:
        _object.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def stream_usage(tail: bytes) -> Usage:
    """Usage from the last bytes of a stream: the last event that states any. All None when there is none."""
    for line in reversed(tail.split(b"\n")):
        if line.startswith(b"data: {") and b'"usage"' in line:
            usage = whole_usage(line[len(b"data: ") :])
            if usage != Usage():
                return usage
    return Usage()


def stream_is_complete(tail: bytes) -> bool:
    """True when a stream whose last bytes these are ended with its closing `[DONE]` event, whole.

    A JSON string has no raw line end, so no text that an engine says can look like that event.
    """
    event = tail.rstrip(b"\r\n")
    return (
        tail.endswith(_EVENT_ENDS) and event.endswith(_DONE_EVENT) and event[: -len(_DONE_EVENT)][-1:] in _LINE_STARTS
    )
