"""One endpoint in a simulated run: an engine model that can die and come back, and what it tells of itself."""

from collections.abc import Callable
from functools import partial

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored
from vicinal.domain.report import EndpointReport
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.work import BlocksEvicted, BlocksSealed, CacheChange
from vicinal.kvindex.hashing import pack_hashes
from vicinal.sim.agenda import Agenda, Rank, Wake

KvEvent = BlocksStored | BlocksRemoved | BlocksCleared


class Server:
    """`engine` is None while it is dead. `slot` is its position in the network. `pump` is called when it has news."""

    def __init__(
        self,
        endpoint: Endpoint,
        slot: int,
        make_engine: Callable[[Endpoint], Engine],
        agenda: Agenda,
        pump: "Callable[[Server, float], None]",
    ) -> None:
        self.endpoint = endpoint
        self.id = endpoint.id
        self.slot = slot
        self.wake = Wake(agenda, Rank.ENGINE, partial(pump, self))
        self.engine: Engine | None = make_engine(endpoint)
        self.incarnation = 0
        self._make_engine = make_engine
        self._sequence = 0

    def die(self) -> None:
        self.engine = None
        self.wake.at(None)

    def start(self) -> BlocksCleared:
        """Come back empty. What it says first makes all its older blocks void."""
        self.engine = self._make_engine(self.endpoint)
        self.incarnation += 1
        self._sequence = 0
        return BlocksCleared(self.id, self.incarnation, self._next(), "restart")

    def event(self, change: CacheChange) -> KvEvent:
        """A change of its cache as it is published."""
        match change:
            case BlocksSealed():
                return BlocksStored(
                    self.id,
                    self.incarnation,
                    self._next(),
                    change.parent,
                    change.keys,
                    b"",
                    self.endpoint.block_tokens,
                    tier=change.tier,
                    block_hashes=pack_hashes(change.keys),
                )
            case BlocksEvicted():
                return BlocksRemoved(self.id, self.incarnation, self._next(), change.keys, change.tier)
            case _:
                return BlocksCleared(self.id, self.incarnation, self._next(), "reset")

    def gap(self) -> BlocksCleared:
        """Events were lost beyond replay."""
        return BlocksCleared(self.id, self.incarnation, self._next(), "gap")

    def report(self, engine: Engine, now: float) -> EndpointReport:
        """One scrape of its metrics page."""
        pool, counters = engine.memory.pool, engine.counters
        return EndpointReport(
            self.id,
            now,
            waiting=engine.waiting,
            running=engine.running,
            kv_usage=pool.used / pool.blocks,
            kv_blocks=pool.blocks,
            block_tokens=self.endpoint.block_tokens,
            prefix_queries_tokens=float(counters.prefix_queries_tokens),
            prefix_hits_tokens=float(counters.prefix_hits_tokens),
            preemptions=float(counters.preemptions),
        )

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence - 1
