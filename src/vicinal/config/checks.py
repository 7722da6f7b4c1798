"""Clusters that cannot be: each key is fine by itself, and together they mean nothing. One rule per function.

A rule yields (key, what is wrong and what would cure it). Whether a profile or policy exists is checked where those
names are known.
"""

from collections.abc import Callable, Iterator

from vicinal.config.access_rules import access_findings
from vicinal.config.cluster import block_tokens, hand_off, kv_blocks, kv_bytes_per_token
from vicinal.config.dialects import dialects_can, dialects_exist
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.problems import Key, key_text, nearest
from vicinal.config.tenant_rules import tenant_findings
from vicinal.config.tls_rules import tls_findings
from vicinal.config.trust import trust_findings
from vicinal.domain.capabilities import CAPABILITIES

Finding = tuple[Key, str]


def findings(config: Config) -> Iterator[Finding]:
    """Everything that is impossible about `config`, in the order of the rules."""
    for rule in _RULES:
        yield from rule(config)


def _somebody_decodes(config: Config) -> Iterator[Finding]:
    if config.kubernetes.selector:
        return
    if not config.endpoint:
        yield ("endpoint",), "no endpoint; add an [[endpoint]] table with id, url and kv_blocks"
    elif not any(entry.role.decodes for entry in config.endpoint):
        yield ("endpoint",), 'no endpoint decodes; give at least one role = "decode" or "both"'


def _names_are_unique(config: Config) -> Iterator[Finding]:
    ids: dict[str, int] = {}
    for at, entry in enumerate(config.endpoint):
        if (first := ids.setdefault(entry.id, at)) != at:
            yield ("endpoint", at, "id"), f'"{entry.id}" is endpoint[{first}] already'
    names: dict[str, int] = {}
    for at, service in enumerate(config.service):
        if (first := names.setdefault(service.name, at)) != at:
            yield ("service", at, "name"), f'"{service.name}" is service[{first}] already'


def _addresses_are_unique(config: Config) -> Iterator[Finding]:
    taken: dict[str, str] = {}
    for key, address in _addresses(config):
        if address in taken:
            yield key, f"{address} is taken by {taken[address]}; choose another port"
        else:
            taken[address] = key_text(key)


def _long_bodies_find_room(config: Config) -> Iterator[Finding]:
    """One body gets at most half of the memory that is free (gateway/body_pieces.py)."""
    server = config.server
    if server.body_bytes_max > server.long_body_bytes and server.long_bodies_bytes_max < 2 * server.body_bytes_max:
        words = f"a body of body_bytes_max never finds room; make it at least {2 * server.body_bytes_max}"
        yield ("server", "long_bodies_bytes_max"), words


def _ranks_are_unique(config: Config) -> Iterator[Finding]:
    """Endpoints that share an address are data-parallel ranks of one process, each with a number of its own."""
    ranks: dict[tuple[str, int | None], str] = {}
    for at, entry in enumerate(config.endpoint):
        name = ("endpoint", at, "data_parallel_rank")
        if entry.data_parallel_rank is not None:
            said = (_address(entry.url), entry.data_parallel_rank)
            if (other := ranks.setdefault(said, entry.id)) != entry.id:
                yield name, f'rank {entry.data_parallel_rank} of {entry.url} is "{other}" already'


def _addresses(config: Config) -> Iterator[tuple[Key, str]]:
    server = config.server
    for key, host, port in (("port", server.host, server.port), ("admin_port", server.admin_host, server.admin_port)):
        if port:
            yield ("server", key), f"{_host(host)}:{port}"
    shared: set[str] = set()
    for at, entry in enumerate(config.endpoint):
        for name, url in _urls(entry):
            address = _address(url)
            if name == "url" and entry.data_parallel_rank is not None:
                if address in shared:
                    continue
                shared.add(address)
            yield ("endpoint", at, name), address
        kind = hand_off(entry) if entry.dialect in CAPABILITIES else None
        if kind is not None and kind.concurrent and entry.role.prefills:
            meeting = f"{_address(entry.url).rpartition(':')[0]}:{entry.bootstrap_port}"
            if entry.data_parallel_rank is None or meeting not in shared:
                shared.add(meeting)
                yield ("endpoint", at, "bootstrap_port"), meeting


def _address(url: str) -> str:
    host, _, digits = url.rstrip("/").partition("://")[2].rpartition(":")
    return f"{_host(host)}:{digits}" if host else url


def _urls(entry: Endpoint) -> Iterator[tuple[str, str]]:
    for name, url in (("url", entry.url), ("events_url", entry.events_url), ("replay_url", entry.replay_url)):
        if url:
            yield name, url


def _host(name: str) -> str:
    return "127.0.0.1" if name == "localhost" else name


def _ports_exist(config: Config) -> Iterator[Finding]:
    for at, entry in enumerate(config.endpoint):
        for name, url in _urls(entry):
            if url.startswith("ipc:"):
                continue
            digits = url.rstrip("/").rpartition(":")[2]
            if not (digits.isdecimal() and 1 <= int(digits) <= 65535):
                yield ("endpoint", at, name), f'"{url}" has no port between 1 and 65535'


def _addresses_can_be_reached(config: Config) -> Iterator[Finding]:
    for at, entry in enumerate(config.endpoint):
        for name, url in _urls(entry):
            if "://*:" in url:  # what the engine's own configuration says, where it listens everywhere
                yield (
                    ("endpoint", at, name),
                    f'"{url}" is no address to connect to: name the engine\'s host instead of *',
                )


def _pods_have_a_dialect(config: Config) -> Iterator[Finding]:
    if config.kubernetes.selector and config.kubernetes.dialect not in CAPABILITIES:
        known = ", ".join(CAPABILITIES)
        yield (
            ("kubernetes", "dialect"),
            f'"{config.kubernetes.dialect}" is not a dialect that is there; known: {known}',
        )


def _kv_is_said_once(config: Config) -> Iterator[Finding]:
    for at, entry in enumerate(config.endpoint):
        key: Key = ("endpoint", at)
        if entry.kv_blocks is None and entry.kv_tokens is None:
            yield key, f'"{entry.id}" does not say how much KV it holds; give kv_blocks or kv_tokens'
        elif entry.kv_blocks is not None and entry.kv_tokens is not None:
            yield (*key, "kv_tokens"), "kv_blocks says it already; leave one of them out"
        elif not kv_blocks(config, entry):
            yield (*key, "kv_tokens"), f"less than one block, which has {block_tokens(config, entry)} tokens"


def _tiers_hold_blocks(config: Config) -> Iterator[Finding]:
    """What comes from SSD comes through host memory."""
    for at, entry in enumerate(config.endpoint):
        block = block_tokens(config, entry)
        for name in ("host_tokens", "ssd_tokens"):
            if 0 < getattr(entry, name) < block:
                yield ("endpoint", at, name), f"less than one block, which has {block} tokens; 0 means none"
        if entry.ssd_tokens and not entry.host_tokens:
            yield (
                ("endpoint", at, "ssd_tokens"),
                f'"{entry.id}" has KV on SSD and none in host memory, through which it would be read; give host_tokens',
            )


def _kv_is_alike(config: Config) -> Iterator[Finding]:
    """KV moves between endpoints of a model block by block, and the index has blocks of one size."""
    if not config.endpoint:
        return
    first = config.endpoint[0]
    for name, figure in (("block_tokens", block_tokens), ("kv_bytes_per_token", kv_bytes_per_token)):
        for at, entry in enumerate(config.endpoint):
            apart = name == "kv_bytes_per_token" and entry.model != first.model
            if figure(config, entry) != figure(config, first) and not apart:
                yield (
                    ("endpoint", at, name) if getattr(entry, name) else ("endpoint", at),
                    f'"{entry.id}" has {name} {figure(config, entry)} and "{first.id}" has {figure(config, first)}: '
                    f"KV of {config.model.name} could not move between them",
                )


def _places_nest(config: Config) -> Iterator[Finding]:
    """In a tree, a host hangs under one leaf, and a leaf's name belongs to one pod and site."""
    leaf_of: dict[str, tuple[str, str, str]] = {}
    pod_of: dict[str, tuple[str, str]] = {}
    for at, entry in enumerate(config.endpoint):
        if entry.host and entry.leaf:
            place = (entry.leaf, entry.pod, entry.site)
            if (other := leaf_of.setdefault(entry.host, place)) != place:
                yield (
                    ("endpoint", at, "host"),
                    f'"{entry.host}" is under leaf "{other[0]}" and under leaf "{entry.leaf}"',
                )
        if entry.leaf:
            above = (entry.pod, entry.site)
            if (known := pod_of.setdefault(entry.leaf, above)) != above:
                yield (
                    ("endpoint", at, "leaf"),
                    f'leaf "{entry.leaf}" is in pod "{known[0]}" of site "{known[1]}" and in pod "{entry.pod}" of site '
                    f'"{entry.site}"; give each leaf a name of its own',
                )


def _uplinks_exist(config: Config) -> Iterator[Finding]:
    places = dict.fromkeys(name for entry in config.endpoint for name in (entry.leaf, entry.pod) if name)
    for name in config.network.uplinks_gbytes_per_s:
        if name not in places:
            yield (
                ("network", "uplinks_gbytes_per_s", name),
                f'no endpoint is in a leaf or pod "{name}"{nearest(name, places)}',
            )


_RULES: tuple[Callable[[Config], Iterator[Finding]], ...] = (
    _somebody_decodes,
    _names_are_unique,
    dialects_exist,
    _pods_have_a_dialect,
    _ports_exist,
    _addresses_can_be_reached,
    _addresses_are_unique,
    _long_bodies_find_room,
    _ranks_are_unique,
    _kv_is_said_once,
    _tiers_hold_blocks,
    _kv_is_alike,
    dialects_can,
    _places_nest,
    _uplinks_exist,
    trust_findings,
    tenant_findings,
    access_findings,
    tls_findings,
)
