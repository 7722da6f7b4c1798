"""Endpoints that ask for what their dialect cannot do, and halves of requests that no other half fits."""

from collections.abc import Iterator

from vicinal.config.cluster import hand_off
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.problems import Key, nearest
from vicinal.domain.capabilities import CAPABILITIES
from vicinal.domain.endpoint import HandOff, Role

Finding = tuple[Key, str]


def dialects_exist(config: Config) -> Iterator[Finding]:
    for at, entry in enumerate(config.endpoint):
        if entry.dialect not in CAPABILITIES:
            hint = nearest(entry.dialect, CAPABILITIES)
            yield ("endpoint", at, "dialect"), f'"{entry.dialect}" is not a dialect that is there{hint}'


def dialects_can(config: Config) -> Iterator[Finding]:
    known = [(at, entry) for at, entry in enumerate(config.endpoint) if entry.dialect in CAPABILITIES]
    for at, entry in known:
        yield from _asks_too_much(at, entry)
    halves = [(at, entry, kind) for at, entry in known if (kind := hand_off(entry)) is not None]
    if not any(entry.role.decodes for entry in config.endpoint):
        return  # said already
    for at, entry, kind in halves:
        others = [other for _, other, same in halves if same is kind and other.model == entry.model]
        if entry.role is Role.PREFILL and not any(other.role.decodes for other in others):
            yield ("endpoint", at), _alone(entry, kind, "decodes")
        if entry.role is Role.DECODE and kind.halves_need_each_other and not any(o.role.prefills for o in others):
            yield ("endpoint", at), _alone(entry, kind, "prefills")


def _asks_too_much(at: int, entry: Endpoint) -> Iterator[Finding]:
    can = CAPABILITIES[entry.dialect]
    key: Key = ("endpoint", at, "hand_off")
    if isinstance(entry.hand_off, HandOff) and entry.hand_off not in can.hand_offs:
        ways = " or ".join(f'"{kind}"' for kind in can.hand_offs) or "none; leave the key out"
        yield key, f'the dialect "{entry.dialect}" has no hand-off "{entry.hand_off}"; it has {ways}'
    elif isinstance(entry.hand_off, HandOff) and entry.hand_off.halves_need_each_other and entry.role is Role.BOTH:
        yield key, f'"{entry.hand_off}" is between engines of role "prefill" and "decode"; "{entry.id}" is both'
    elif entry.role is not Role.BOTH and hand_off(entry) is None:
        cure = " or hand_off = true" if can.hand_offs else ""
        yield (
            key,
            f'"{entry.id}" has role "{entry.role}" and no hand-off: its half of a request could not reach the other '
            f'half; give it role = "both"{cure}',
        )
    if entry.events_url and not can.events:
        yield ("endpoint", at, "events_url"), f'the dialect "{entry.dialect}" has no KV events; leave it out'


def _alone(entry: Endpoint, kind: HandOff, other: str) -> str:
    return f'"{entry.id}" hands off by "{kind}", and no endpoint of that kind {other}: it could never serve a request'
