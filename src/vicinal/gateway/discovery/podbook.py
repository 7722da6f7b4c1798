"""Which pods are engines, kept by lists and watches of the Kubernetes API. No socket in it.

    list                    the book is exactly this, as of its resourceVersion; watch from there
    ADDED, MODIFIED         the pod is now like this
    DELETED                 it is gone
    BOOKMARK                nothing happened up to this resourceVersion
    ERROR 410, other ERROR  what happened since then is forgotten: list again

A pod becomes an engine when it is Ready. From then on it stays one until it ends: readiness that comes and goes under
load would void all that is known of its cache, and whether it answers now, scrapes tell better.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from vicinal.gateway.discovery.pods import NoEngineError, Pod, PodDefaults, Sighting, read_pod, sightings

_KINDS = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})


class ListAgainError(Exception):
    """The watch cannot go on from the book's `resource_version`. The text says why."""


class PodBook:
    """`resource_version` is up to where the book is true; "" before the first list.

    `complain` is called with a pod's name and text for a pod that is no engine because of what it says of itself.
    """

    def __init__(self, defaults: PodDefaults, complain: Callable[[str, str], None]) -> None:
        self.resource_version = ""
        self._defaults = defaults
        self._complain = complain
        self._pods: dict[str, Pod] = {}
        self._admitted: set[str] = set()

    def listed(self, items: Iterable[Any], resource_version: str) -> None:
        """Take in a whole list, in however many pages it came."""
        pods = [pod for item in items if (pod := self._read(item)) is not None]
        self._pods = {pod.metadata.name: pod for pod in pods}
        self._admitted = {p.metadata.uid for p in pods if p.ready or (p.there and p.metadata.uid in self._admitted)}
        self.resource_version = resource_version

    def happened(self, kind: str, item: Any) -> None:
        """Take in one event of a watch. Raises ListAgainError. A kind that is not known changes nothing."""
        if kind == "ERROR":
            raise ListAgainError(_status(item))
        if kind not in _KINDS:
            return
        pod = self._read(item)
        if pod is None:
            raise ListAgainError("an object that is no pod")
        if pod.metadata.resource_version:
            self.resource_version = pod.metadata.resource_version
        if kind == "BOOKMARK":
            return
        before = self._pods.pop(pod.metadata.name, pod)
        if kind == "DELETED" or not pod.there or before.metadata.uid != pod.metadata.uid:
            self._admitted.discard(before.metadata.uid)
        if kind != "DELETED":
            self._pods[pod.metadata.name] = pod
            if pod.ready:
                self._admitted.add(pod.metadata.uid)

    def nodes(self) -> frozenset[str]:
        """Names of the nodes on which engines run."""
        return frozenset(pod.spec.node_name for pod in self._engines() if pod.spec.node_name)

    def sightings(self, nodes: Mapping[str, Mapping[str, str]]) -> list[Sighting]:
        """All engines, by name; `nodes` are labels by node, as far as they are known."""
        found: list[Sighting] = []
        for pod in sorted(self._engines(), key=lambda pod: pod.metadata.name):
            try:
                found += sightings(pod, self._defaults, nodes.get(pod.spec.node_name, {}))
            except NoEngineError as error:
                self._complain(pod.metadata.name, str(error))
        return found

    def _engines(self) -> list[Pod]:
        return [pod for pod in self._pods.values() if pod.metadata.uid in self._admitted]

    def _read(self, item: Any) -> Pod | None:
        try:
            return read_pod(item)
        except msgspec.ValidationError as error:
            self._complain("", f"an object cannot be read as a pod: {error}")
            return None


def _status(item: Any) -> str:
    """The words of a Status object."""
    said = item if isinstance(item, Mapping) else {}
    return f"{said.get('code', 'no code')}: {said.get('message', 'no message')}"
