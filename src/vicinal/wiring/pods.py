"""Pods that were seen as entries of a configuration, so that one set of rules says what can be served."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from vicinal.config.checks import findings
from vicinal.config.fleet import Config, Endpoint
from vicinal.config.kubernetes import Kubernetes
from vicinal.config.problems import ConfigError, Problem
from vicinal.gateway.discovery.api import ApiAddress
from vicinal.gateway.discovery.pods import PodDefaults, Sighting

HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


def api_address(section: Kubernetes, environ: Mapping[str, str]) -> ApiAddress:
    """Where to ask. Raises ConfigError when neither the file nor the environment says."""
    url = section.api_url
    if not url:
        host, port = environ.get(HOST, ""), environ.get(PORT, "443")
        if not host:
            words = f"is empty, and {HOST} is not set as it is in a pod: say where the API server is"
            raise ConfigError([Problem("configuration", "kubernetes.api_url", words)])
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = section.namespace
    if not namespace:
        try:
            namespace = Path(section.namespace_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            namespace = "default"
    return ApiAddress(url, namespace, Path(section.token_file), Path(section.ca_file))


def pod_defaults(section: Kubernetes) -> PodDefaults:
    return PodDefaults(
        section.role_label,
        section.role,
        section.port,
        section.events_port,
        section.replay_port,
        section.kv_blocks,
    )


def entry_of(section: Kubernetes, seen: Sighting, kv_blocks: int | None) -> Endpoint:
    """A pod's engine as an [[endpoint]] table would have it."""
    return Endpoint(
        id=seen.name,
        url=seen.url,
        role=seen.role,
        hand_off=section.hand_off,
        bootstrap_port=section.bootstrap_port,
        data_parallel_rank=seen.rank,
        host=seen.place.host,
        leaf=seen.place.leaf,
        pod=seen.place.pod,
        site=seen.place.site,
        kv_blocks=kv_blocks,
        sequences_max=section.sequences_max,
        dialect=section.dialect,
        events_url=seen.events_url,
        replay_url=seen.replay_url,
        profile=section.profile,
    )


def together(config: Config, entries: Sequence[Endpoint]) -> tuple[Config, dict[str, str]]:
    """`config` with those of `entries` that go with it, and why the others do not, by id.

    A pod must not keep others from serving, so what contradicts what was there before it is left out.
    """
    first = len(config.endpoint)
    kept = list(entries)
    refused: dict[str, str] = {}
    while True:
        merged = replace(config, endpoint=(*config.endpoint, *kept))
        bad: dict[int, str] = {}
        for at, text in _misfits(merged, first):
            bad.setdefault(at, text)
        if not bad:
            return merged, refused
        refused |= {kept[at].id: text for at, text in bad.items()}
        kept = [entry for at, entry in enumerate(kept) if at not in bad]


def _misfits(config: Config, first: int) -> Iterator[tuple[int, str]]:
    """What the rules find wrong at one of the entries from number `first` on."""
    for key, text in findings(config):
        if key[0] == "endpoint" and len(key) > 1 and isinstance(key[1], int) and key[1] >= first:
            yield key[1] - first, text
