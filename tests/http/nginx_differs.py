"""Where nginx decides otherwise than we do, and why we do as we do. Cases that are not here are decided alike.

nginx repairs much of what it passes on: the server behind it gets its own spelling of the request, not the client's. We
have no server behind us that reads HTTP heads of clients, but may well have one in front that reads them otherwise than
we do: so we repair nothing.
"""

_LF = "takes LF alone for the end of a line; a server in front that does not sees other lines"
_REPAIRS = "leaves out what it does not understand; a server in front may understand it"
_CHUNKS = "leaves out extensions and trailers unread; a server in front may find another end in them"
_BOUND = "has no such bound"
_PATHS = "decodes and resolves paths, and refuses what it cannot; our routes are exact, so these are merely unknown"

DIFFERS: dict[str, str] = {
    "two empty lines before the request": "skips any number of empty lines; we skip the one that old clients send",
    "a bare LF before the request": _LF,
    "two spaces after the method": _REPAIRS,
    "a space after the version": _REPAIRS,
    "HTTP/1.2": "takes any 1.x for 1.1; nobody speaks 1.2, and httptools refuses it too",
    "a version with two digits": "takes 1.10 for a version; RFC 9112 has one digit",
    "a method that does not exist": "passes any method on; we know what we serve",
    "an absolute target of another scheme": "does not look at the scheme; we are no proxy for others",
    "an asterisk": "refuses OPTIONS * itself; here it is a path that no route has",
    "a fragment": "cuts it off; a client that sends one is broken",
    "a byte above 127": "passes it on; a target is ASCII",
    "escapes, which are not decoded": _PATHS,
    "an escaped NUL": _PATHS,
    "an escape that is none": _PATHS,
    "a line ended by LF alone": _LF,
    "every line ended by LF alone": _LF,
    "a head ended by LF alone": _LF,
    "a CR before a line's end": _REPAIRS,
    "a control character in a value": "passes it on; RFC 9110 calls it dangerous",
    "a byte above 127 in a name": _REPAIRS,
    "no colon": _REPAIRS,
    "Content-Type twice": "passes both on; we would have to choose",
    "more fields than the bound": _BOUND,
    "many short fields above the bound": "has room for its four buffers of the bound",
    "a host with a user": "cuts it off",
    "a port that is none": "cuts it off",
    "an empty Host": "refuses it; RFC 9110 allows it, and we do not use the host",
    "a long body that finds no room": _BOUND,
    "a size of 17 digits": _BOUND,
    "a space after a size": _CHUNKS,
    "a size line ended by LF alone": _LF,
    "an extension with an LF": _CHUNKS,
    "an extension with a NUL": _CHUNKS,
    "an extension with a question mark": _CHUNKS,
    "data ended by LF alone": _LF,
    "a trailer without a colon": _CHUNKS,
    "a trailer ended by LF alone": _LF,
    "a trailer that names a length": _CHUNKS,
    "a trailer that names a coding": _CHUNKS,
    "more trailers than the bound": _BOUND,
}
