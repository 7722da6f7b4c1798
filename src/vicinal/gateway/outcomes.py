"""docs/outcomes.md, made from the closed lists: `python -m vicinal.gateway.outcomes > docs/outcomes.md`."""

import sys
from collections.abc import Iterable, Iterator

from vicinal.domain.outcome import Ending, Fault, Meaning
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.errors import AGAIN_S_MIN, header_lines
from vicinal.gateway.refusals import RefusalKind

_INTRODUCTION = f"""\
# Outcomes

Every request ends once, in one way, and every way is on this page: what its client reads and whose doing it is. An
error is `{{"error": {{"message", "type", "param", "code"}}}}`, as OpenAI's clients expect; its `code` is the first
column. Its headers say to a machine:

- `X-Vicinal-Reason`: the code again, and where there is one, a detail behind a colon: `quota_exceeded:…` names the
  quota. A few words of our own, never anything of a request.
- `Retry-After`: whole seconds, at least {AGAIN_S_MIN}: with each refusal worth repeating, and with no other. The
  core draws them, so that those who are refused together do not come back together.
- `X-Request-Id`: of a request that has a name. `vicinal explain` takes it.

Whose doing it is says who can change something:

| Fault | Who can change it |
|---|---|
| `{Fault.NOBODY}` | nothing is wrong |
| `{Fault.CLIENT}` | whoever sends the request |
| `{Fault.TENANT}` | its tenant used up what it may: wait, or ask for a larger quota ([tenants.md](tenants.md)) |
| `{Fault.FLEET}` | the operator: the engines have no room, or do not answer |
| `{Fault.ENGINE}` | the operator: an engine failed; its own log has its words, under the request's id |
| `{Fault.GATEWAY}` | the operator: vicinal's own log has more |

This file is made from the code by `python -m vicinal.gateway.outcomes`; edit the lists, not this file.
"""

_ENDINGS = """\
## Endings

Of requests that the core took: its `code`, the label `ending` of `vicinal_requests_total`, and `ending` in the record.
A stream that has begun can have no status and no header any more: it ends with an event `data: {"error": …}`, without
`[DONE]`, and the connection closes. What an engine says is wrong with a request itself goes through as it came, with
its status (a 5xx that complains of length becomes 400): then only the header says `rejected`.
"""

_CODES = """\
## Refused by a route

Before the core has it: counted in `vicinal_gateway_events_total` as `refused` (401 as `keys_refused`, 403 as
`models_forbidden` too), and in no record.
"""

_KINDS = """\
## Refused while it is read

What never became a request, or not a whole one. `vicinal_http_refusals_total` counts it by `kind`. Where there is a
status an answer comes first, with the kind as its `code`; the connection ends in any case.
"""

_NOTHING = "–"


def page() -> str:
    """The whole document, as Markdown."""
    return "\n".join([_INTRODUCTION, *_endings(), *_codes(), *_kinds(), ""])


def _endings() -> Iterator[str]:
    yield _ENDINGS
    yield from _table("Ending", ((ending, ending.meaning) for ending in Ending))


def _codes() -> Iterator[str]:
    yield _CODES
    yield from _table("Code", ((code, code.meaning) for code in ErrorCode))


def _kinds() -> Iterator[str]:
    yield _KINDS
    yield "| Kind | Status | When | Headers |"
    yield "|---|---|---|---|"
    for kind in RefusalKind:
        meaning = kind.meaning
        status = "none: closed" if meaning is None else str(meaning.status)
        yield f"| `{kind}` | {status} | {kind.text} | {_NOTHING if meaning is None else _headers(meaning)} |"


def _table(first: str, rows: Iterable[tuple[str, Meaning]]) -> Iterator[str]:
    yield f"| {first} | Status | When | Fault | Headers |"
    yield "|---|---|---|---|---|"
    for name, meaning in rows:
        yield f"| `{name}` | {meaning.status} | {meaning.text} | {meaning.fault} | {_headers(meaning)} |"
    yield ""


def _headers(meaning: Meaning) -> str:
    """Those that not every error has."""
    if meaning.status < 400:
        return _NOTHING
    lines = header_lines(meaning, "").decode().split("\r\n")
    names = [f"`{line.partition(':')[0]}`" for line in lines if line and not line.startswith("X-Vicinal-Reason")]
    names += ["`Allow`"] * (meaning.status == 405)
    return ", ".join(names) or _NOTHING


if __name__ == "__main__":
    sys.stdout.write(page())
