"""`vicinal core`: the scheduler's process of `vicinal serve --relays N`, which starts it."""

import asyncio
import os
import signal
from pathlib import Path

from msgspec.structs import replace

from vicinal.cli.loop import keep_for_good, run, say_ready, stop_on_signal
from vicinal.clock import ModelClock
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.access import access_files
from vicinal.wiring.fleets import FleetSources
from vicinal.wiring.fronts import RelaysFront
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.processes import Ready
from vicinal.wiring.reloading import ConfigWatch
from vicinal.wiring.watching import FileWatch


def core(
    *,
    config: Path,
    socket: Path,
    relays: int,
    api_port: int,
    admin_port: int | None = None,
    capture: Path | None = None,
) -> None:
    """The scheduler's process of `vicinal serve --relays N`, which starts it."""
    loaded = load(config, os.environ)
    server = replace(loaded.server, port=api_port)
    if admin_port is not None:
        server = replace(server, admin_port=admin_port)
    run(_core(config, loaded, replace(loaded, server=server), socket, relays, capture))


async def _core(path: Path, loaded: Config, config: Config, socket: Path, relays: int, capture: Path | None) -> None:
    socket.unlink(missing_ok=True)  # of a core that was killed
    watch = ConfigWatch(path, os.environ, loaded)
    keys = FileWatch(lambda: access_files(config))
    live = LiveSystem(config, ModelClock(), capture, front=lambda core: RelaysFront(core, socket, relays))
    sources = FleetSources(config, live, os.environ)

    def ask() -> None:
        watch.ask()
        keys.ask()

    with stop_on_signal(until_input_ends=True) as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ask)
        try:
            await live.start()
            keep_for_good()
            say_ready(Ready(live.admin_url, live.admin_port, len(live.fleet)))
            sources.start()
            watch.start(sources.take_over)
            keys.start(live.access.renew)
            await stop.wait()
        finally:
            await watch.stop()
            await keys.stop()
            await sources.stop()
            await live.stop()
