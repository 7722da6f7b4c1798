"""The head of a request as what follows from it: where its body ends, and whether another request may follow.

httptools takes the lines apart, after `head_lines` has found them in order. What is ambiguous about the body's end is
refused here, and so is what would mean one thing to this server and another to a proxy before it.
"""

import re

import httptools

from vicinal.gateway.head_lines import HeadLines
from vicinal.gateway.http_message import Refusal
from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind

_ONCE = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"content-type"))
_KIND_OF_REPEATED = {
    b"host": RefusalKind.BAD_HOST,
    b"content-length": RefusalKind.BAD_LENGTH,
    b"transfer-encoding": RefusalKind.BAD_CODING,
}
_NOT_REQUESTS = (b"CONNECT", b"PRI")
"""A tunnel, and the beginning of HTTP/2: what follows them is no HTTP/1.1."""
_LENGTH_DIGITS_MAX = 18
_authority = re.compile(rb"(?:[A-Za-z0-9._~%\-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_first_line = re.compile(rb"([A-Z_-]+) ([!-~]+) HTTP/1\.([01])\r\n")
_url = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://([^/?#]+)(/[^?#]*)?(?:\?[^#]*)?")


class RequestHead:
    """`length` is that of the body, None while a chunked one has not ended. `wants_continue`: the client waits for
    `100 Continue` before it sends a body."""

    __slots__ = ("headers", "http10", "keep_alive", "length", "method", "path", "wants_continue")

    def __init__(
        self, method: bytes, path: bytes, headers: dict[bytes, bytes], length: int | None, http10: bool
    ) -> None:
        connection = headers.get(b"connection")
        self.method = method
        self.path = path
        self.headers = headers
        self.length = length
        self.http10 = http10
        self.keep_alive = not http10 and (connection is None or not _names(connection.lower(), b"close"))
        self.wants_continue = not http10 and length != 0 and b"expect" in headers


class _Fields:
    """What httptools calls, once for each field. A later one of the same spelling takes the place of an earlier one."""

    __slots__ = ("named", "on_header")

    def __init__(self) -> None:
        self.named: dict[bytes, bytes] = {}
        self.on_header = self.named.__setitem__


def read_head(raw: bytes, lines: HeadLines, limits: Limits) -> RequestHead | Refusal:
    """`raw` is a whole head, its empty line included, that `lines` just let pass."""
    first = _first_line.match(raw)
    assert first is not None
    method, target, minor = first.groups()
    path = _path(target)
    if path is None:
        return _malformed("the target is neither a path nor an http URL")
    fields = _Fields()
    doubt: httptools.HttpParserError | None = None
    try:
        httptools.HttpRequestParser(fields).feed_data(raw)
    except httptools.HttpParserUpgrade:
        pass  # an offer that a server may leave alone; some clients make it with every first request
    except httptools.HttpParserError as error:
        doubt = error
    headers = {name.lower(): value for name, value in fields.named.items()}
    if doubt is not None or not lines.plain or len(headers) != lines.fields:
        headers, repeated = _joined(raw)
        if repeated is not None:
            return repeated
    http10 = minor == b"0"
    refusal = _host_fault(headers, http10) or _coding_fault(headers, http10) or _expectation_fault(headers, http10)
    if refusal is not None:
        return refusal
    length = _length(headers, limits)
    if isinstance(length, Refusal):
        return length
    if method in _NOT_REQUESTS or isinstance(doubt, httptools.HttpParserInvalidMethodError):
        return Refusal(RefusalKind.UNSUPPORTED_METHOD, "the method is none that this server knows")
    if doubt is not None:  # what httptools alone finds wrong is refused in its words
        return _malformed(str(doubt))
    return RequestHead(method, path, headers, length, http10)


def _path(target: bytes) -> bytes | None:
    """Without its query, and of an absolute target too. Nothing is decoded or normalised: routes are exact."""
    if target.startswith(b"/"):
        return target.partition(b"?")[0] if b"#" not in target else None
    found = _url.fullmatch(target)
    if found is not None:
        return (found[2] or b"/") if _authority.fullmatch(found[1]) else None
    return target if target == b"*" else None


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
            return headers, Refusal(kind, f"{name.decode()} is there more than once")
        else:
            headers[name] += b", " + value
    return headers, None


def _host_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    host = headers.get(b"host")
    if host is None:
        return None if http10 else Refusal(RefusalKind.BAD_HOST, "HTTP/1.1 needs a Host header")
    if host and not _authority.fullmatch(host):
        return Refusal(RefusalKind.BAD_HOST, "Host is not a host with an optional port")
    return None


def _coding_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    coding = headers.get(b"transfer-encoding")
    if coding is None:
        return None
    if b"content-length" in headers:
        words = "both Content-Length and Transfer-Encoding: the body's end is ambiguous"
        return Refusal(RefusalKind.BAD_CODING, words)
    if http10:
        return Refusal(RefusalKind.BAD_CODING, "HTTP/1.0 has no Transfer-Encoding: the body's end is ambiguous")
    if coding.lower() != b"chunked":
        return Refusal(RefusalKind.UNSUPPORTED_CODING, "the only transfer coding understood here is chunked")
    return None


def _expectation_fault(headers: dict[bytes, bytes], http10: bool) -> Refusal | None:
    expect = headers.get(b"expect")
    if expect is None or http10 or expect.lower() == b"100-continue":
        return None
    return Refusal(RefusalKind.UNSUPPORTED_EXPECTATION, "the only expectation understood here is 100-continue")


def _length(headers: dict[bytes, bytes], limits: Limits) -> int | Refusal | None:
    if b"transfer-encoding" in headers:
        return None
    stated = headers.get(b"content-length")
    if stated is None:
        return 0
    if not stated.isdigit() or len(stated) > _LENGTH_DIGITS_MAX:
        words = f"Content-Length is not a number of at most {_LENGTH_DIGITS_MAX} digits"
        return Refusal(RefusalKind.BAD_LENGTH, words)
    length = int(stated)
    if length > limits.body_bytes:
        return Refusal(RefusalKind.BODY_TOO_LARGE, f"the body exceeds {limits.body_bytes} bytes")
    return length


def _malformed(what: str) -> Refusal:
    return Refusal(RefusalKind.MALFORMED_HEAD, f"malformed HTTP: {what}")


def _names(values: bytes, token: bytes) -> bool:
    """`token` is one of the values, in small letters, of a header that lists them."""
    return token in values and any(value.strip(b" \t") == token for value in values.split(b","))
