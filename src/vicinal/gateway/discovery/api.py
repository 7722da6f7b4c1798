"""The few questions to a Kubernetes API server: list pods, watch pods, labels of a node."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from yarl import URL

PAGE_PODS = 500
ANSWER_BYTES_MAX = 64 << 20
LINE_BYTES_MAX = 2 << 20
"""Of one event of a watch; etcd takes no object above 1.5 MiB."""

_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json"


class ApiError(Exception):
    """The API server does not give what was asked for. The text says why, and what cures it if that is known."""


class GoneError(ApiError):
    """410: what happened since that resourceVersion is forgotten."""


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """Where the server is and as whom to ask. `token_file` is read for every question, since tokens are changed under
    a running pod; a file that is not there means no token. `ca_file` matters for https only."""

    url: str
    namespace: str
    token_file: Path
    ca_file: Path


@dataclass(frozen=True, slots=True)
class PodList:
    """All pods that match, and as of when."""

    items: list[Any]
    resource_version: str


class KubernetesApi:
    """`session` stays the caller's. `answer_s` bounds a question, `silence_s` a watch without a byte.

    Raises OSError or ssl.SSLError when made, for a `ca_file` that cannot be read.
    """

    def __init__(
        self, address: ApiAddress, selector: str, session: aiohttp.ClientSession, *, answer_s: float = 30.0
    ) -> None:
        self._address = address
        self._selector = selector
        self._session = session
        self._answer_s = answer_s
        https = address.url.startswith("https:")
        self._ssl: ssl.SSLContext | bool = ssl.create_default_context(cafile=address.ca_file) if https else False

    async def list_pods(self) -> PodList:
        """Page by page. Raises ApiError, GoneError, and what aiohttp and sockets raise."""
        items: list[Any] = []
        wanted = {"labelSelector": self._selector, "limit": str(PAGE_PODS)}
        while True:
            async with self._asked(self._pods, wanted, "list", self._answer_s) as answer:
                page = await _object(answer)
            metadata = page.get("metadata") or {}
            items += page.get("items") or []
            if not metadata.get("continue"):
                return PodList(items, str(metadata.get("resourceVersion", "")))
            wanted = {**wanted, "continue": str(metadata["continue"])}

    async def watch_pods(self, resource_version: str, for_s: float) -> AsyncGenerator[tuple[str, Any], None]:
        """(kind, object) of what happens after `resource_version`, until the server ends it, at the latest after about
        `for_s`. Raises like `list_pods`."""
        wanted = {
            "labelSelector": self._selector,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(max(1, round(for_s))),
        }
        async with self._asked(self._pods, wanted, "watch", None, silence_s=for_s + 10.0) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _event(line)
                if len(rest) > LINE_BYTES_MAX:
                    raise ApiError(f"an event of more than {LINE_BYTES_MAX} bytes")

    async def node_labels(self, name: str) -> dict[str, str]:
        """Raises like `list_pods`."""
        path = f"/api/v1/nodes/{name}"
        async with self._asked(path, {}, "get", self._answer_s, accept=_METADATA_ONLY) as answer:
            labels = ((await _object(answer)).get("metadata") or {}).get("labels") or {}
        return {str(key): str(value) for key, value in labels.items()}

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self._address.namespace}/pods"

    @asynccontextmanager
    async def _asked(
        self,
        path: str,
        query: Mapping[str, str],
        verb: str,
        total_s: float | None,
        *,
        silence_s: float | None = None,
        accept: str = "application/json",
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Accept": accept}
        if token := self._token():
            headers["Authorization"] = f"Bearer {token}"
        async with self._session.get(
            URL(self._address.url.rstrip("/") + path),
            params=query,
            headers=headers,
            ssl=self._ssl,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=self._answer_s, sock_read=silence_s),
        ) as answer:
            if answer.status != 200:
                raise await self._refusal(answer, path, verb)
            yield answer

    def _token(self) -> str:
        try:
            return self._address.token_file.read_text(encoding="ascii").strip()
        except OSError:
            return ""

    async def _refusal(self, answer: aiohttp.ClientResponse, path: str, verb: str) -> ApiError:
        said = (await answer.content.read(2_000)).decode("utf-8", "replace")
        with_words = " ".join(said.split())[:300]
        what = path.removeprefix("/api/v1/")
        match answer.status:
            case 401:
                token = self._address.token_file
                cure = f"the token in {token} is not accepted" if self._token() else f"there is no token in {token}"
                return ApiError(f"{verb} {what}: 401: {cure}")
            case 403:
                kind = "ClusterRole with get on nodes" if "nodes" in path else "Role with get, list and watch on pods"
                return ApiError(
                    f"{verb} {what}: 403: the service account may not; bind it to a {kind} (docs/discovery.md)"
                )
            case 410:
                return GoneError(f"{verb} {what}: 410")
            case status:
                return ApiError(f"{verb} {what}: {status}: {with_words}")


async def _object(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > ANSWER_BYTES_MAX:
            raise ApiError(f"an answer of more than {ANSWER_BYTES_MAX} bytes")
    return _decoded(bytes(body))


def _event(line: bytes) -> tuple[str, Any]:
    event = _decoded(line)
    return str(event.get("type", "")), event.get("object")


def _decoded(text: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise ApiError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ApiError("not a JSON object")
    return value
