"""Requests that are malformed, hostile or merely odd, and what each gets: the table of docs/http.md, and more.

`sent` is answered with `statuses`, in their order; then the connection is `kept` or closed. `kind` is the counter that
goes up by one, None when nothing is refused. A server with the bounds of `BOUNDS` answers 200 to each request that it
lets through.
"""

from dataclasses import dataclass

from vicinal.gateway.limits import Limits
from vicinal.gateway.refusals import RefusalKind as Kind

MALFORMED_HEAD = Kind.MALFORMED_HEAD
BAD_HOST = Kind.BAD_HOST
BAD_LENGTH = Kind.BAD_LENGTH
BAD_CODING = Kind.BAD_CODING
BAD_CHUNK = Kind.BAD_CHUNK
REPEATED_HEADER = Kind.REPEATED_HEADER
BODY_TOO_LARGE = Kind.BODY_TOO_LARGE
NO_ROOM_FOR_BODY = Kind.NO_ROOM_FOR_BODY
TARGET_TOO_LONG = Kind.TARGET_TOO_LONG
UNSUPPORTED_EXPECTATION = Kind.UNSUPPORTED_EXPECTATION
HEAD_TOO_LARGE = Kind.HEAD_TOO_LARGE
TOO_MANY_HEADERS = Kind.TOO_MANY_HEADERS
UNSUPPORTED_CODING = Kind.UNSUPPORTED_CODING
UNSUPPORTED_METHOD = Kind.UNSUPPORTED_METHOD
UNSUPPORTED_VERSION = Kind.UNSUPPORTED_VERSION

BOUNDS = Limits(body_bytes=4096, head_bytes=2048, head_fields=20, long_body_bytes=3000, long_bodies_bytes=8100)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    sent: bytes
    statuses: tuple[int, ...]
    kind: Kind | None = None
    kept: bool = False


def lines(*parts: str | bytes, body: bytes = b"") -> bytes:
    """A head of these lines with its end, and what follows it."""
    raw = [part if isinstance(part, bytes) else part.encode("latin-1") for part in parts]
    return b"\r\n".join(raw) + b"\r\n\r\n" + body


def get(*fields: str | bytes, line: str = "GET /x HTTP/1.1", host: str = "Host: h") -> bytes:
    return lines(line, *([host] if host else []), *fields)


def post(*fields: str | bytes, body: bytes = b"", line: str = "POST /x HTTP/1.1") -> bytes:
    return lines(line, "Host: h", *fields, body=body)


def chunked(body: bytes, *fields: str) -> bytes:
    return post("Transfer-Encoding: chunked", *fields, body=body)


def sized(*lengths: str, body: bytes = b"hello") -> bytes:
    return post(*(f"Content-Length: {length}" for length in lengths), body=body)


def coded(*codings: str, body: bytes = b"0\r\n\r\n") -> bytes:
    return post(*(f"Transfer-Encoding: {coding}" for coding in codings), body=body)


def served(name: str, sent: bytes, number: int = 1, *, kept: bool = True) -> Case:
    return Case(name, sent, (200,) * number, kept=kept)


def refused(name: str, sent: bytes, kind: Kind, status: int = 400) -> Case:
    return Case(name, sent, (status,), kind)


_SECOND = get(line="GET /second HTTP/1.1")

SECTIONS: dict[str, tuple[Case, ...]] = {
    "Request lines": (
        served("a plain request", get()),
        served("two pipelined requests", get() + _SECOND, 2),
        served("an empty line before the request", b"\r\n" + get()),
        refused("two empty lines before the request", b"\r\n\r\n" + get(), MALFORMED_HEAD),
        refused("a bare LF before the request", b"\n" + get(), MALFORMED_HEAD),
        refused("a space before the method", b" " + get(), MALFORMED_HEAD),
        refused("two spaces after the method", get(line="GET  /x HTTP/1.1"), MALFORMED_HEAD),
        refused("a tab instead of a space", get(line="GET\t/x HTTP/1.1"), MALFORMED_HEAD),
        refused("a space within the target", get(line="GET /a b HTTP/1.1"), MALFORMED_HEAD),
        refused("a space after the version", get(line="GET /x HTTP/1.1 "), MALFORMED_HEAD),
        refused("no version (HTTP/0.9)", b"GET /x\r\n", MALFORMED_HEAD),
        refused("HTTP/0.9 by its number", get(line="GET /x HTTP/0.9"), UNSUPPORTED_VERSION, 505),
        refused("HTTP/1.2", get(line="GET /x HTTP/1.2"), UNSUPPORTED_VERSION, 505),
        refused("HTTP/2.0 in a request line", get(line="GET /x HTTP/2.0"), UNSUPPORTED_VERSION, 505),
        refused("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", UNSUPPORTED_VERSION, 505),
        refused("the preface of HTTP/2 as HTTP/1.1", lines("PRI * HTTP/1.1", "Host: h"), UNSUPPORTED_METHOD, 501),
        refused("a version with two digits", get(line="GET /x HTTP/1.10"), MALFORMED_HEAD),
        refused("another protocol's name", get(line="GET /x RTSP/1.0"), MALFORMED_HEAD),
        refused("a response", b"HTTP/1.1 200 OK\r\nHost: h\r\n\r\n", MALFORMED_HEAD),
        refused("a TLS handshake", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", MALFORMED_HEAD),
        refused("NUL bytes", b"\0" * 16, MALFORMED_HEAD),
        refused("a method in small letters", get(line="get /x HTTP/1.1"), MALFORMED_HEAD),
        refused("a method that does not exist", get(line="FOO /x HTTP/1.1"), UNSUPPORTED_METHOD, 501),
        refused("CONNECT", get(line="CONNECT h:1 HTTP/1.1"), MALFORMED_HEAD),
        refused("CONNECT with a path", get(line="CONNECT /x HTTP/1.1"), UNSUPPORTED_METHOD, 501),
        refused("a request line above the bound", b"GET /" + b"x" * 3000, TARGET_TOO_LONG, 414),
    ),
    "Targets": (
        served("an absolute target", get(line="GET http://h/x HTTP/1.1")),
        served("an absolute target without a path", get(line="GET http://h HTTP/1.1")),
        refused("an absolute target with a user", get(line="GET http://u@h/ HTTP/1.1"), MALFORMED_HEAD),
        refused("an absolute target of another scheme", get(line="GET ftp://h/ HTTP/1.1"), MALFORMED_HEAD),
        served("an asterisk", get(line="OPTIONS * HTTP/1.1")),
        refused("no slash at the start", get(line="GET x HTTP/1.1"), MALFORMED_HEAD),
        refused("a query alone", get(line="GET ?x HTTP/1.1"), MALFORMED_HEAD),
        refused("a fragment", get(line="GET /x#y HTTP/1.1"), MALFORMED_HEAD),
        refused("a byte above 127", get(line="GET /\xe4 HTTP/1.1"), MALFORMED_HEAD),
        refused("a NUL in the target", get(line="GET /\0 HTTP/1.1"), MALFORMED_HEAD),
        served("dots, which are not resolved", get(line="GET /v1/../x HTTP/1.1")),
        served("escapes, which are not decoded", get(line="GET /%2e%2e/%78 HTTP/1.1")),
        served("an escaped NUL", get(line="GET /%00 HTTP/1.1")),
        served("an escape that is none", get(line="GET /%zz HTTP/1.1")),
    ),
    "Header lines": (
        refused("a line ended by LF alone", get("A: b\nC: d"), MALFORMED_HEAD),
        refused("every line ended by LF alone", b"GET /x HTTP/1.1\nHost: h\n\n", MALFORMED_HEAD),
        refused("a head ended by LF alone", b"GET /x HTTP/1.1\r\nHost: h\r\n\n", MALFORMED_HEAD),
        refused("a CR within a value", get("A: b\rC: d"), MALFORMED_HEAD),
        refused("a CR before a line's end", get("A: b\r"), MALFORMED_HEAD),
        refused("a folded line", get("A: b", " c"), MALFORMED_HEAD),
        refused("a folded first line", get(" A: b", host=""), MALFORMED_HEAD),
        refused("a space before the colon", get("A : b"), MALFORMED_HEAD),
        refused("a space before the colon of a length", post("Content-Length : 5", body=b"hello"), MALFORMED_HEAD),
        refused("a NUL in a value", get("A: b\0c"), MALFORMED_HEAD),
        refused("a NUL in a name", get("A\0: b"), MALFORMED_HEAD),
        refused("a control character in a value", get("A: b\x01"), MALFORMED_HEAD),
        refused("a byte above 127 in a name", get("\xe4: b"), MALFORMED_HEAD),
        served("bytes above 127 in a value", get(b"A: \xc3\xa4")),
        refused("no name", get(": b"), MALFORMED_HEAD),
        refused("no colon", get("A"), MALFORMED_HEAD),
        served("an empty value", get("A:")),
        served("spaces and tabs around a value", get("A: \t b \t ")),
        served("a name twice", get("A: b", "A: c")),
        refused("Authorization twice", get("Authorization: a", "authorization: b"), REPEATED_HEADER),
        refused("Content-Type twice", post("Content-Type: a", "Content-Type: b"), REPEATED_HEADER),
        refused("more fields than the bound", get(*(["A: b"] * 21)), TOO_MANY_HEADERS, 431),
        refused("a head above the bound", get("A: " + "b" * 3000), HEAD_TOO_LARGE, 431),
        refused("a header line that does not end", get("A: ")[:-4] + b"b" * 3000, HEAD_TOO_LARGE, 431),
        refused("many short fields above the bound", get(*(["A" * 100 + ": b"] * 20)), HEAD_TOO_LARGE, 431),
    ),
    "Hosts": (
        refused("no Host", get(host=""), BAD_HOST),
        served("no Host in HTTP/1.0", get(line="GET /x HTTP/1.0", host=""), kept=False),
        refused("Host twice", get("Host: h"), BAD_HOST),
        refused("two hosts in one", get(host="Host: a, b"), BAD_HOST),
        refused("a host with a path", get(host="Host: h/x"), BAD_HOST),
        refused("a host with a user", get(host="Host: u@h"), BAD_HOST),
        refused("a port that is none", get(host="Host: h:x"), BAD_HOST),
        served("an empty Host", get(host="Host:")),
        served("an address with a port", get(host="Host: [::1]:80")),
    ),
    "Lengths": (
        served("a body with its length", post("Content-Length: 5", body=b"hello")),
        served("a length of zero, and another request", post("Content-Length: 0") + _SECOND, 2),
        served("zeros before a length", post("Content-Length: 0005", body=b"hello")),
        served("a body where none is expected", get("Content-Length: 5") + b"hello"),
        refused("a length twice, equal", sized("5", "5"), BAD_LENGTH),
        refused("a length twice, differing", sized("5", "6"), BAD_LENGTH),
        refused("a list of lengths", sized("5, 5"), BAD_LENGTH),
        refused("a length with a plus", sized("+5"), BAD_LENGTH),
        refused("a length with a minus", sized("-5"), BAD_LENGTH),
        refused("a hexadecimal length", sized("0x5"), BAD_LENGTH),
        refused("a length with a point", sized("5.0"), BAD_LENGTH),
        refused("a length in two parts", sized("5 5"), BAD_LENGTH),
        refused("an empty length", post("Content-Length:", body=b"hello"), BAD_LENGTH),
        refused("a length of 25 digits", post("Content-Length: " + "9" * 25), BAD_LENGTH),
        refused("a length above the bound", post("Content-Length: 5000"), BODY_TOO_LARGE, 413),
        refused(
            "a long body that finds no room",
            post("Content-Length: 4096", body=b"x" * 4096),
            NO_ROOM_FOR_BODY,
            503,
        ),
        refused(
            "a length above the bound, waiting",
            post("Expect: 100-continue", "Content-Length: 5000"),
            BODY_TOO_LARGE,
            413,
        ),
        refused(
            "a length and a coding",
            post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
            BAD_CODING,
        ),
        refused(
            "a coding and a length",
            post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"),
            BAD_CODING,
        ),
    ),
    "Codings": (
        served("a chunked body", chunked(b"5\r\nhello\r\n0\r\n\r\n") + _SECOND, 2),
        served("Chunked in capitals", post("Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n") + _SECOND, 2),
        refused("chunked twice", coded("chunked, chunked"), UNSUPPORTED_CODING, 501),
        refused("chunked in two lines", chunked(b"0\r\n\r\n", "Transfer-Encoding: chunked"), BAD_CODING),
        refused("chunked, then identity", chunked(b"0\r\n\r\n", "Transfer-Encoding: identity"), BAD_CODING),
        refused("xchunked", coded("xchunked"), UNSUPPORTED_CODING, 501),
        refused("identity", post("Transfer-Encoding: identity", body=b"hello"), UNSUPPORTED_CODING, 501),
        refused("gzip, chunked", coded("gzip, chunked"), UNSUPPORTED_CODING, 501),
        refused("an empty coding", post("Transfer-Encoding:", body=b"0\r\n\r\n"), UNSUPPORTED_CODING, 501),
        refused("a vertical tab before chunked", coded("\x0bchunked"), MALFORMED_HEAD),
        refused(
            "a coding in HTTP/1.0",
            post("Transfer-Encoding: chunked", line="POST /x HTTP/1.0", body=b"0\r\n\r\n"),
            BAD_CODING,
        ),
    ),
    "Chunks": (
        served(
            "a size in capitals, an extension, a trailer",
            chunked(b"A;x=y\r\n0123456789\r\n0\r\nT: u\r\n\r\n") + _SECOND,
            2,
        ),
        served("zeros before a size", chunked(b"0005\r\nhello\r\n0\r\n\r\n")),
        refused("a size that is none", chunked(b"g\r\n"), BAD_CHUNK),
        refused("an empty size", chunked(b"\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size with a minus", chunked(b"-5\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size with 0x", chunked(b"0x5\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size of 17 digits", chunked(b"0" * 16 + b"5\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size above the bound", chunked(b"1001\r\n"), BODY_TOO_LARGE, 413),
        refused(
            "chunks that find no room together",
            chunked(b"fd0\r\n" + b"x" * 4048 + b"\r\n30\r\n" + b"x" * 48 + b"\r\n"),
            NO_ROOM_FOR_BODY,
            503,
        ),
        refused("a size that overflows", chunked(b"ffffffffffffffff\r\n"), BODY_TOO_LARGE, 413),
        refused(
            "chunks that together exceed the bound",
            chunked((b"700\r\n" + b"x" * 1792 + b"\r\n") * 3),
            BODY_TOO_LARGE,
            413,
        ),
        refused("a space after a size", chunked(b"5 \r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size line ended by LF alone", chunked(b"5\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("a size line of 300 bytes", chunked(b"5;" + b"x" * 300), BAD_CHUNK),
        refused("an extension with an LF", chunked(b"5;a\nb\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("an extension with a NUL", chunked(b"5;\0\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("extensions above the bound", chunked((b"1;" + b"x" * 240 + b"\r\ny\r\n") * 10), BAD_CHUNK),
        refused("data longer than its size", chunked(b"5\r\nhello!\r\n0\r\n\r\n"), BAD_CHUNK),
        refused("data ended by LF alone", chunked(b"5\r\nhello\n0\r\n\r\n"), BAD_CHUNK),
        refused("a trailer without a colon", chunked(b"0\r\nT\r\n\r\n"), MALFORMED_HEAD),
        refused("a trailer ended by LF alone", chunked(b"0\r\nT: u\n\r\n"), MALFORMED_HEAD),
        refused("a trailer that names a length", chunked(b"0\r\nContent-Length: 5\r\n\r\n"), BAD_CHUNK),
        refused("a trailer that names a coding", chunked(b"0\r\nTransfer-Encoding: x\r\n\r\n"), BAD_CHUNK),
        refused("an extension with a question mark", chunked(b"5;a?=b\r\nhello\r\n0\r\n\r\n"), BAD_CHUNK),
        served("a quoted extension", chunked(b'5;a="b c";d\r\nhello\r\n0\r\n\r\n')),
        refused("trailers above the bound", chunked(b"0\r\nT: " + b"u" * 3000), HEAD_TOO_LARGE, 431),
        refused("more trailers than the bound", chunked(b"0\r\n" + b"T: u\r\n" * 21 + b"\r\n"), TOO_MANY_HEADERS, 431),
    ),
    "Expectations, upgrades and ends": (
        served("an expected body that is there", post("Expect: 100-continue", "Content-Length: 5", body=b"hello")),
        served("an expectation without a body", get("Expect: 100-continue")),
        served("an expectation in HTTP/1.0", get("Expect: x", line="GET /x HTTP/1.0"), kept=False),
        refused("another expectation", post("Expect: 200-ok", "Content-Length: 5"), UNSUPPORTED_EXPECTATION, 417),
        served(
            "an upgrade to HTTP/2, which is not taken",
            get("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk"),
        ),
        served(
            "an upgrade with a body",
            post("Connection: Upgrade", "Upgrade: h2c", "Content-Length: 5", body=b"hello") + _SECOND,
            2,
        ),
        served("Connection: close, and another request", get("Connection: close") + _SECOND, kept=False),
        served("close among others", get("Connection: keep-alive, Close") + _SECOND, kept=False),
        served("HTTP/1.0", get(line="GET /x HTTP/1.0") + _SECOND, kept=False),
        served(
            "HTTP/1.0 with keep-alive, which is not kept",
            get("Connection: keep-alive", line="GET /x HTTP/1.0"),
            kept=False,
        ),
        Case("nonsense after a request", get() + b"NONSENSE\r\n\r\n", (200, 400), MALFORMED_HEAD),
        Case(
            "a body longer than its length", post("Content-Length: 5", body=b"hello!\r\n"), (200, 400), MALFORMED_HEAD
        ),
        Case("a body that holds a request", post("Content-Length: 5", body=b"helloGET"), (200,), kept=True),
    ),
}

CASES = tuple(case for section in SECTIONS.values() for case in section)
