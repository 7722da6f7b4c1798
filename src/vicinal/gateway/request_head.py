"""The head of a request as what follows from it: where its body ends, and whether another request may follow.

httptools takes the lines apart, after `head_lines` has found them in order. What is ambiguous about the body's end is
refused here, and so is what would mean one thing to this server and another to a proxy before it.
"""

import re

import httptools

from vicinal.gateway.http_message import Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind

_ONCE = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type"))
_KIND_OF_REPEATED = {
    b"host": RefusalKind.BAD_HOST,
    b"content-length": RefusalKind.BAD_LENGTH,
    b"transfer-encoding": RefusalKind.BAD_CODING,
}
_LENGTH_DIGITS_MAX = 18
_authority = re.compile(rb"(?:[A-Za-z0-9._~%\-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_target = re.compile(rb"(?:(/[^?#]*)|[Hh][Tt][Tt][Pp][Ss]?://([^/?#]+)(/[^?#]*)?)(?:\?[^#]*)?|\*")


class RequestHead:
    """`length` is that of the body, None while a chunked one has not ended. `wants_continue`: the client waits for
    `100 Continue` before it sends a body."""

    __slots__ = ("headers", "http10", "keep_alive", "length", "method", "path", "wants_continue")

    def __init__(
        self, method: bytes, path: bytes, headers: dict[bytes, bytes], length: int | None, *, http10: bool
    ) -> None:
        connection = headers.get(b"connection")
        self.method = method
        self.path = path
        self.headers = headers
        self.length = length
        self.http10 = http10
        self.keep_alive = not http10 and (connection is None or not _names(connection, b"close"))
        self.wants_continue = not http10 and b"expect" in headers and length != 0


class _Parts:
    """What httptools calls."""

    __slots__ = ("headers", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers: dict[bytes, bytes] = {}

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value


def read_head(raw: bytes, limits: Limits) -> RequestHead | Refusal:
    """`raw` is a whole head, its empty line included, that `HeadLines` let pass."""
    method, target, _ = raw.split(b" ", 2)
    path = _path(target)
    if path is None:
        return _malformed("the target is neither a path nor an http URL")
    parts = _Parts()
    parser = httptools.HttpRequestParser(parts)
    doubt: httptools.HttpParserError | None = None
    try:
        parser.feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # an offer that a server may leave alone; some clients make it with every first request
    except httptools.HttpParserError as error:
        doubt = error
    headers = parts.headers
    if doubt is not None or len(headers) != raw.count(b"\r\n") - 2 or b" \r\n" in raw or b"\t\r\n" in raw:
        headers, repeated = _joined(raw)
        if repeated is not None:
            return repeated
    http10 = raw[len(method) + len(target) + 9 : len(method) + len(target) + 10] == b"0"
    refusal = _host_fault(headers, http10) or _coding_fault(headers, http10) or _expectation_fault(headers, http10)
    if refusal is not None:
        return refusal
    length = _length(headers, limits)
    if isinstance(length, Refusal):
        return length
    if doubt is not None or method == b"CONNECT":
        return _doubted(doubt)
    return RequestHead(method, path, headers, length, http10=http10)


def _path(target: bytes) -> bytes | None:
    """Without its query, and of an absolute target too. Nothing is decoded or normalised: routes are exact."""
    found = _target.fullmatch(target)
    if found is None:
        return None
    path, authority, rest = found.groups()
    if path is not None:
        return bytes(path)
    if authority is None:
        return target
    return (rest or b"/") if _authority.fullmatch(authority) else None


def _joined(raw: bytes) -> tuple[dict[bytes, bytes], Refusal | None]:
    """The fields by name, with the values of equals joined; the second is why that must not be done."""
    headers: dict[bytes, bytes] = {}
    for line in raw[:-4].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name not in headers:
            headers[name] = value
        elif name in _ONCE:
            kind = _KIND_OF_REPEATED.get(name, RefusalKind.REPEATED_HEADER)
            return headers, Refusal(400, kind, f"{name.decode()} is there more than once")
        else:
            headers[name] += b", " + value
    return headers, None


def _host_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    host = headers.get(b"host")
    if host is None:
        return None if http10 else Refusal(400, RefusalKind.BAD_HOST, "HTTP/1.1 needs a Host header")
    if host and not _authority.fullmatch(host):
        return Refusal(400, RefusalKind.BAD_HOST, "Host is not a host with an optional port")
    return None


def _coding_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return None
    if b"content-length" in headers:
        words = "both Content-Length and Transfer-Encoding: the body's end is ambiguous"
        return Refusal(400, RefusalKind.BAD_CODING, words)
    if http10:
        return Refusal(400, RefusalKind.BAD_CODING, "HTTP/1.0 has no Transfer-Encoding: the body's end is ambiguous")
    if coding.lower() != b"chunked":
        return Refusal(501, RefusalKind.UNSUPPORTED_CODING, "the only transfer coding understood here is chunked")
    return None


def _expectation_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    expect = headers.get(b"expect")
    if expect is None or http10 or expect.lower() == b"100-continue":
        return None
    return Refusal(417, RefusalKind.UNSUPPORTED_EXPECTATION, "the only expectation understood here is 100-continue")


def _length(headers: dict[bytes, bytes], limits: Limits) -> int | Refusal | None:
    if b"transfer-encoding" in headers:
        return None
    stated = headers.get(b"content-length")
    if stated is None:
        return 0
    if not stated.isdigit() or len(stated) > _LENGTH_DIGITS_MAX:
        words = f"Content-Length is not a number of at most {_LENGTH_DIGITS_MAX} digits"
        return Refusal(400, RefusalKind.BAD_LENGTH, words)
    length = int(stated)
    if length > limits.body_bytes:
        return Refusal(413, RefusalKind.BODY_TOO_LARGE, f"the body exceeds {limits.body_bytes} bytes")
    return length


def _doubted(error: httptools.HttpParserError | None) -> Refusal:
    """CONNECT asks for a tunnel; what httptools alone finds wrong is refused in its words."""
    if error is None or isinstance(error, httptools.HttpParserInvalidMethodError):
        return Refusal(501, RefusalKind.UNSUPPORTED_METHOD, "the method is none that this server knows")
    return _malformed(str(error))


def _malformed(what: str) -> Refusal:
    return Refusal(400, RefusalKind.MALFORMED_HEAD, f"malformed HTTP: {what}")


def _names(values: bytes, token: bytes) -> bool:
    """`token` is one of the values of a header that lists them."""
    return any(value.strip(b" \t") == token for value in values.lower().split(b","))
