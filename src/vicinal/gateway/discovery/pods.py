"""Pods as the Kubernetes API gives them, and what of a pod makes it an engine. No socket in it.

A pod is described by its labels and annotations (docs/discovery.md), and where it does not say a thing, by the
`PodDefaults`. Where a pod stands is what its own labels say, and for the rest what the labels of its node say.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from vicinal.domain.endpoint import Placement, Role
from vicinal.topology.kubernetes import placement

PORT = "vicinal/port"
EVENTS_PORT = "vicinal/events-port"
REPLAY_PORT = "vicinal/replay-port"
KV_BLOCKS = "vicinal/kv-blocks"
RANKS = "vicinal/data-parallel-ranks"

_ROLES = {
    "prefill": Role.PREFILL,
    "encode-prefill": Role.PREFILL,
    "decode": Role.DECODE,
    "both": Role.BOTH,
    "prefill-decode": Role.BOTH,
    "encode-prefill-decode": Role.BOTH,
}
"""Values of a role label, as llm-d has them; a pod that only encodes is none of ours."""
_RANKS_MAX = 256


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Status(msgspec.Struct, frozen=True):
    phase: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    conditions: list[_Condition] | None = None


class Pod(msgspec.Struct, frozen=True):
    """The part of a Pod object that is read; all else is passed over."""

    metadata: Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def ready(self) -> bool:
        conditions = self.status.conditions or []
        return self.there and any(c.type == "Ready" and c.status == "True" for c in conditions)

    @property
    def there(self) -> bool:
        """It has an address, and is neither over nor about to end."""
        over = self.status.phase in ("Succeeded", "Failed")
        return bool(self.status.pod_ip) and self.metadata.deletion_timestamp is None and not over


@dataclass(frozen=True, slots=True)
class PodDefaults:
    """What is true of a pod that does not say otherwise. Port 0: none. `kv_blocks` None: to be learned."""

    role_label: str
    role: Role
    port: int
    events_port: int
    replay_port: int
    kv_blocks: int | None


@dataclass(frozen=True, slots=True)
class Sighting:
    """One engine in a pod: a whole pod, or one of its data-parallel ranks. `uid` is the pod's life."""

    name: str
    uid: str
    url: str
    role: Role
    place: Placement
    events_url: str = ""
    replay_url: str = ""
    kv_blocks: int | None = None
    rank: int | None = None


class NoEngineError(ValueError):
    """What a pod says of itself cannot be. The text names the label or annotation."""


def read_pod(raw: Any) -> Pod:
    """A decoded JSON object as a Pod. Raises msgspec.ValidationError."""
    return msgspec.convert(raw, Pod)


def sightings(pod: Pod, defaults: PodDefaults, node: Mapping[str, str]) -> Iterator[Sighting]:
    """The engines in a pod that is there; `node` are the labels of its node, empty for unknown ones.

    Raises NoEngineError.
    """
    labels, notes = pod.metadata.labels or {}, pod.metadata.annotations or {}
    said = labels.get(defaults.role_label)
    if said is not None and said not in _ROLES:
        raise NoEngineError(f'label {defaults.role_label} is "{said}"; known: {", ".join(_ROLES)}')
    role = defaults.role if said is None else _ROLES[said]
    port = _number(notes, PORT, defaults.port, 1, 65535)
    events = _number(notes, EVENTS_PORT, defaults.events_port, 0, 65535)
    replay = _number(notes, REPLAY_PORT, defaults.replay_port, 0, 65535)
    kv_blocks = _number(notes, KV_BLOCKS, defaults.kv_blocks or 0, 0, 1 << 40) or None
    ranks = _number(notes, RANKS, 0, 0, _RANKS_MAX)
    host = f"[{pod.status.pod_ip}]" if ":" in pod.status.pod_ip else pod.status.pod_ip
    for rank in range(ranks) if ranks else (None,):
        # vLLM adds the rank to the ports at which it publishes events.
        up = rank or 0
        yield Sighting(
            name=pod.metadata.name if rank is None else f"{pod.metadata.name}.{rank}",
            uid=pod.metadata.uid,
            url=f"http://{host}:{port}",
            role=role,
            place=_place(pod, node),
            events_url=f"tcp://{host}:{events + up}" if events else "",
            replay_url=f"tcp://{host}:{replay + up}" if events and replay else "",
            kv_blocks=kv_blocks,
            rank=rank,
        )


def _place(pod: Pod, node: Mapping[str, str]) -> Placement:
    name = pod.spec.node_name
    own = placement(name, pod.metadata.labels or {})
    its = placement(node.get("kubernetes.io/hostname") or name, node)
    return Placement(its.host, own.leaf or its.leaf, own.pod or its.pod, own.site or its.site)


def _number(notes: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    if (text := notes.get(name)) is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 16 and least <= int(text) <= most):
        raise NoEngineError(f'annotation {name} is "{text}"; expected a number from {least} to {most}')
    return int(text)
