"""Many emulated engines in one process, each at its own addresses, on one modelled network."""

import asyncio
import errno
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import zmq
from aiohttp import web

from vicinal.clock import ModelClock
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.emulator.clock import DEBT_MAX
from vicinal.emulator.rooms import Address, Rooms
from vicinal.emulator.serving import Serving
from vicinal.emulator.speech import Speech, TextCodec
from vicinal.emulator.station import Station
from vicinal.emulator.transfers import Transfers
from vicinal.topology.graph import Routing


class PortInUseError(OSError):
    """An address that an endpoint is to listen at is taken."""

    def __init__(self, endpoint: EndpointId, url: str) -> None:
        self.endpoint = endpoint
        self.url = url
        super().__init__(
            errno.EADDRINUSE,
            f"{url} of endpoint {endpoint} is in use; give the endpoint another port (`up --port` moves them all), "
            "or stop its user",
        )


class EmulatedFleet:
    """`endpoints` are those that `routing` knows, in its order. All addresses come from them; none may have port 0.

    `origin_s` is a reading of the system's monotonic clock at which model time is 0 (default: now). `emit_interval_s`
    is wall time; `natural_tokens` is how long a chat's answer is when the request does not say; a prefill's blocks wait
    `lease_s` model seconds to be pulled, and a dead holder costs `holder_timeout_s` model seconds (vLLM: about 7).
    A step of an engine computes `batched_tokens_max` tokens at most.
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        routing: Routing,
        speed: float,
        codec: TextCodec,
        origin_s: float | None = None,
        emit_interval_s: float = 0.005,
        natural_tokens: int = 256,
        lease_s: float = 30.0,
        holder_timeout_s: float = 7.0,
        batched_tokens_max: int = 8192,
    ) -> None:
        self.clock = ModelClock(speed, origin_s)
        self._endpoints = {endpoint.id: endpoint for endpoint in endpoints}
        self._routing = routing
        self._codec = codec
        self._speech = Speech(codec)
        self._emit_interval_s = emit_interval_s
        self._natural_tokens = natural_tokens
        self._lease_s = lease_s
        self._holder_timeout_s = holder_timeout_s
        self._batched_tokens_max = batched_tokens_max
        self._transfers = Transfers(routing, self.clock)
        self._rooms = Rooms(self._transfers, self.clock, lease_s)
        self._stations: dict[EndpointId, Station] = {}
        self._runners: dict[EndpointId, web.AppRunner] = {}
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    async def start(self) -> None:
        """Listen at all addresses. Raises PortInUseError, and then nothing listens."""
        try:
            for endpoint_id in self._endpoints:
                await self.restart(endpoint_id)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Close everything. A fleet cannot be started again."""
        for endpoint_id in list(self._stations):
            await self.kill(endpoint_id)
        self._transfers.stop()
        self._context.destroy(linger=0)

    async def kill(self, endpoint_id: EndpointId) -> None:
        """This engine dies: its connections break, what it held and did is lost. The others learn it the hard way."""
        station = self._stations.pop(endpoint_id)
        station.driver.stop()
        self._rooms.lose(station.driver)
        for other in self._stations.values():
            other.driver.lose_holder(station.driver)
        runner = self._runners.pop(endpoint_id, None)
        if runner is not None:
            for site in list(runner.sites):
                await site.stop()
            if runner.server is not None:
                for connection in runner.server.connections:
                    if connection.transport is not None:
                        connection.transport.abort()
            # Handlers see their broken connections in the next turn of the loop, and end by themselves.
            await asyncio.sleep(0)
            await runner.cleanup()
        await station.publisher.close()

    async def restart(self, endpoint_id: EndpointId) -> None:
        """Start this engine, empty: with a new engine id, and events numbered from 0. It must not be running."""
        if endpoint_id in self._stations:
            raise ValueError(f"endpoint {endpoint_id} is running")
        endpoint = self._endpoints[endpoint_id]
        station = Station(
            endpoint,
            self._routing.slots[endpoint_id],
            self.clock,
            self._transfers,
            self._codec,
            self._speech,
            self._find,
            self._rooms,
            self._has_bootstrap,
            self._emit_interval_s,
            self._natural_tokens,
            self._lease_s,
            self._batched_tokens_max,
        )
        self._stations[endpoint_id] = station
        await self._listen(endpoint, station)

    def station(self, endpoint_id: EndpointId) -> Station:
        """The living engine behind an endpoint, for tests that look inside."""
        return self._stations[endpoint_id]

    def summary(self) -> dict[str, Any]:
        """Figures of the whole fleet. Debts are shares of the run, None where nothing ran (emulator/clock.py)."""
        engines = {endpoint_id: self._figures(station) for endpoint_id, station in self._stations.items()}
        debts = [e["clock_debt"] for e in engines.values() if e["clock_debt"] is not None]
        network_debt = self._transfers.debt.ratio
        worst = max([*debts, *([] if network_debt is None else [network_debt])], default=None)
        return {
            "now_s": self.clock.now(),
            "speed": self.clock.speed,
            "clock_debt": {
                "worst": worst,
                "mean": sum(debts) / len(debts) if debts else None,
                "network": network_debt,
                "valid": worst is None or worst <= DEBT_MAX,
            },
            "kv_bytes": dict(self._transfers.network.bytes_by_level),
            "flows": len(self._transfers.network),
            "preemptions": sum(e["preemptions"] for e in engines.values()),
            "hand_offs_refused": sum(e["hand_offs_refused"] for e in engines.values()),
            "engines": engines,
        }

    def _find(self, engine_id: str) -> Station | None:
        return next((s for s in self._stations.values() if s.engine_id == engine_id), None)

    def _has_bootstrap(self, address: Address) -> bool:
        return any(station.bootstrap == address for station in self._stations.values())

    def _figures(self, station: Station) -> dict[str, Any]:
        station.driver.refresh()
        engine = station.driver.engine
        loaded = engine.counters.loaded_tokens
        return {
            "engine_id": station.engine_id,
            "clock_debt": station.driver.debt.ratio,
            "running": engine.running,
            "waiting": engine.waiting,
            "legs": station.driver.legs,
            "holds": len(engine.holds),
            "blocks_used": engine.memory.pool.used,
            "blocks_cached": engine.memory.pool.cached,
            "preemptions": engine.counters.preemptions,
            "leases_expired": engine.counters.leases_expired,
            "hand_offs_refused": station.hand_offs_refused,
            "prefix_queries_tokens": engine.counters.prefix_queries_tokens,
            "prefix_hits_tokens": engine.counters.prefix_hits_tokens,
            "loaded_tokens": {tier.value: tokens for tier, tokens in loaded.items()},
            "pulled_tokens": engine.counters.external_hits_tokens - sum(loaded.values()),
            "computed_tokens": engine.counters.computed_tokens,
            "generated_tokens": engine.counters.generated_tokens,
            "stamps_dropped": station.stamps.dropped,
        }

    async def _listen(self, endpoint: Endpoint, station: Station) -> None:
        serving = Serving(station, self.summary, self._holder_timeout_s)
        runner = web.AppRunner(
            serving.application(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=0.0,
            keepalive_timeout=300,
        )
        await runner.setup()
        self._runners[endpoint.id] = runner
        url = urlsplit(endpoint.url)
        try:
            await web.TCPSite(runner, url.hostname, url.port).start()
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUseError(endpoint.id, endpoint.url) from None
            raise
        try:
            station.publisher.bind(self._context, endpoint.events_url, endpoint.replay_url)
        except zmq.ZMQError as error:
            if error.errno == zmq.EADDRINUSE:
                raise PortInUseError(endpoint.id, f"{endpoint.events_url} or {endpoint.replay_url}") from None
            raise
