"""A Kubernetes API server as far as pods and node labels go: lists in pages, watches, bookmarks, troubles."""

import asyncio
import json
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


def pod(name: str, uid: str = "", *, ready: bool = True, **changes: Any) -> dict[str, Any]:
    """A pod with fields that nobody here reads, too."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": uid or f"uid-{name}",
            "namespace": "llm",
            "labels": changes.get("labels", {}),
            "annotations": changes.get("annotations"),
            **({"deletionTimestamp": "2026-11-30T00:00:00Z"} if changes.get("ending") else {}),
        },
        "spec": {"nodeName": changes.get("node", "n1"), "containers": [{"name": "vllm"}]},
        "status": {
            "phase": changes.get("phase", "Running"),
            "podIP": changes.get("ip", "10.0.0.1"),
            "conditions": [{"type": "Ready", "status": str(ready)}],
        },
    }


class ApiServer:
    """`trouble` is what the next requests meet: a status, "drop" (the connection ends inside an event), "silent".
    `page` is how many pods a list's page has at most."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, str]] = {}
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0
        self.version = 100
        self.page = 2
        self.trouble: list[int | str] = []
        self.token = ""
        self.asked: list[str] = []
        self.selectors: set[str] = set()
        self._more = asyncio.Event()
        self._cut = asyncio.Event()
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/{namespace}/pods", self._pods)
        app.router.add_get("/api/v1/nodes/{name}", self._node)
        self._server = TestServer(app)

    async def start(self) -> str:
        await self._server.start_server()
        return str(self._server.make_url("/")).rstrip("/")

    async def stop(self) -> None:
        self.cut()
        await self._server.close()

    def put(self, item: dict[str, Any]) -> None:
        self._note("MODIFIED" if item["metadata"]["name"] in self.pods else "ADDED", item)
        self.pods[item["metadata"]["name"]] = item

    def delete(self, name: str) -> None:
        self._note("DELETED", self.pods.pop(name))

    def bookmark(self) -> None:
        self._note("BOOKMARK", {"kind": "Pod", "metadata": {"creationTimestamp": None}})

    def forget(self) -> None:
        """Compaction: watches from before now are gone."""
        self.version += 1
        self.oldest = self.version
        self.history.clear()

    def cut(self) -> None:
        """End all watches, without a word."""
        cut, self._cut = self._cut, asyncio.Event()
        cut.set()
        self._wake()

    def _note(self, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        item = json.loads(json.dumps(item))
        item["metadata"]["resourceVersion"] = str(self.version)
        self.history.append((self.version, kind, item))
        self._wake()

    def _wake(self) -> None:
        more, self._more = self._more, asyncio.Event()
        more.set()

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return web.json_response({"kind": "Status", "message": "Unauthorized", "code": 401}, status=401)
        if self.trouble and isinstance(self.trouble[0], int):
            status = self.trouble.pop(0)
            assert isinstance(status, int)
            return web.json_response({"kind": "Status", "message": "no", "code": status}, status=status)
        return None

    async def _pods(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        self.asked.append("watch" if "watch" in query else "list")
        self.selectors.add(query["labelSelector"])
        if (refused := self._refused(request)) is not None:
            return refused
        if "watch" in query:
            return await self._watch(request)
        names = sorted(self.pods)
        first = int(query.get("continue", "0"))
        here = names[first : first + self.page]
        metadata = {"resourceVersion": str(self.version)}
        if first + self.page < len(names):
            metadata["continue"] = str(first + self.page)
        return web.json_response({"kind": "PodList", "metadata": metadata, "items": [self.pods[n] for n in here]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        assert request.query["allowWatchBookmarks"] == "true"
        at, cut = int(request.query["resourceVersion"]), self._cut
        response = web.StreamResponse()
        await response.prepare(request)
        if self.trouble and self.trouble[0] == "silent":
            self.trouble.pop(0)
            await cut.wait()
            return response
        if at < self.oldest:
            gone = {"kind": "Status", "code": 410, "message": f"too old resource version: {at} ({self.oldest})"}
            await response.write(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n")
            return response
        while not cut.is_set():
            for version, kind, item in [past for past in self.history if past[0] > at]:
                line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                if self.trouble and self.trouble[0] == "drop":
                    self.trouble.pop(0)
                    await response.write(line[: len(line) // 2])
                    assert request.transport is not None
                    request.transport.abort()
                    return response
                if self.trouble and self.trouble[0] == "garbage":
                    self.trouble.pop(0)
                    line = b"this is no JSON\n"
                await response.write(line)
                at = version
            more = self._more
            if not any(past[0] > at for past in self.history):
                await more.wait()
        return response

    async def _node(self, request: web.Request) -> web.StreamResponse:
        self.asked.append("node")
        name = request.match_info["name"]
        if name not in self.nodes:
            return web.json_response({"kind": "Status", "message": "nodes is forbidden", "code": 403}, status=403)
        assert "PartialObjectMetadata" in request.headers["Accept"]
        return web.json_response({"metadata": {"name": name, "labels": self.nodes[name]}})
