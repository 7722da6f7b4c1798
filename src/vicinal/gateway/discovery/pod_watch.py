"""Follows the pods of a Kubernetes cluster: list, watch, and list again when a watch cannot go on.

While the server does not answer, the fleet stays as it was: whether engines answer, scrapes tell.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing

import aiohttp

from vicinal.domain.chance import Stream
from vicinal.gateway.backoff import doubled
from vicinal.gateway.discovery.api import ApiError, GoneError, KubernetesApi
from vicinal.gateway.discovery.podbook import ListAgainError, PodBook
from vicinal.gateway.discovery.pods import PodDefaults, Sighting

log = logging.getLogger(__name__)

PAUSE_S = (1.0, 30.0)
"""Shortest and longest pause after a failure, before jitter."""

WATCH_S = 60.0
SHORT_S = 1.0
"""A watch that ends sooner without an event is followed by a pause."""

NODE_S = 600.0
"""How long the labels of a node are taken to be as they were."""

NODES_AT_A_TIME = 8

_FAILURES = (ApiError, ListAgainError, aiohttp.ClientError, OSError, TimeoutError, ValueError)


class PodWatch:
    """`found` gets all engines each time that they may have changed, at most once in `settle_s`.

    With `nodes`, places come from the labels of the pods' nodes too. `counts` has lists, watches, events, gone,
    failures, node_failures. Pauses are spread by `jitter`.
    """

    def __init__(
        self,
        api: KubernetesApi,
        defaults: PodDefaults,
        found: Callable[[list[Sighting]], Awaitable[None]],
        jitter: Stream,
        *,
        nodes: bool = True,
        settle_s: float = 0.25,
        watch_s: float = WATCH_S,
        pause_s: tuple[float, float] = PAUSE_S,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._api = api
        self._book = PodBook(defaults, self._not_an_engine)
        self._found = found
        self._jitter = jitter
        self._wants_nodes = nodes
        self._settle_s = settle_s
        self._watch_s = watch_s
        self._pause_s = pause_s
        self._nodes: dict[str, dict[str, str]] = {}
        self._nodes_s: dict[str, float] = {}
        self._changed = asyncio.Event()
        self._told: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for work in (self._follow(), self._tell()):
            task = asyncio.create_task(work)
            task.add_done_callback(_ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def _follow(self) -> None:
        failures = 0
        while True:
            events, began_s = self.counts["events"], asyncio.get_running_loop().time()
            try:
                await self._list_and_watch()
                if self.counts["events"] > events or asyncio.get_running_loop().time() - began_s > SHORT_S:
                    failures = 0
                    continue
            except (GoneError, ListAgainError) as error:
                self.counts["gone"] += 1
                self._book.resource_version = ""
                log.info("pods are listed again: %s", error)
            except _FAILURES as error:
                self.counts["failures"] += 1
                self._tell_once(f"pods cannot be followed: {_words(error)}; the fleet stays as it was")
            failures = 0 if self.counts["events"] > events else failures + 1
            least, most = self._pause_s
            await asyncio.sleep(doubled(least, failures, most) * (0.5 + self._jitter.random()))

    async def _list_and_watch(self) -> None:
        """One list if need be, and one watch."""
        if not self._book.resource_version:
            self.counts["lists"] += 1
            pods = await self._api.list_pods()
            self._book.listed(pods.items, pods.resource_version)
            self._told = {said for said in self._told if not said.startswith("pods ")}
            self._changed.set()
        self.counts["watches"] += 1
        for_s = self._watch_s * (0.9 + 0.2 * self._jitter.random())
        async with aclosing(self._api.watch_pods(self._book.resource_version, for_s)) as events:
            async for kind, item in events:
                self.counts["events"] += 1
                self._book.happened(kind, item)
                if kind != "BOOKMARK":
                    self._changed.set()

    async def _tell(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(self._settle_s)  # a roll-out changes many pods; each change of the fleet costs time
            self._changed.clear()
            if self._wants_nodes:
                await self._learn_nodes()
            await self._found(self._book.sightings(self._nodes))

    async def _learn_nodes(self) -> None:
        now_s = asyncio.get_running_loop().time()
        wanted = self._book.nodes()
        self._nodes_s = {name: at_s for name, at_s in self._nodes_s.items() if name in wanted}
        self._nodes = {name: labels for name, labels in self._nodes.items() if name in wanted}
        old = [name for name in wanted if now_s - self._nodes_s.get(name, float("-inf")) > NODE_S]
        gate = asyncio.Semaphore(NODES_AT_A_TIME)

        async def learn(name: str) -> None:
            async with gate:
                try:
                    self._nodes[name] = await self._api.node_labels(name)
                except _FAILURES as error:
                    self.counts["node_failures"] += 1
                    self._tell_once(f"places of nodes are unknown: {_words(error)}")
                self._nodes_s[name] = now_s

        await asyncio.gather(*(learn(name) for name in old))

    def _not_an_engine(self, pod: str, text: str) -> None:
        self._tell_once(f"pod {pod} is not taken for an engine: {text}")

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            if len(self._told) > 10_000:  # pods come and go for years
                self._told.clear()
            self._told.add(text)
            log.warning("%s", text)


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _ended(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("following the pods ended", exc_info=error)
