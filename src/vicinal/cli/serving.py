"""Runs a live system until it is asked to stop, and takes over meanwhile what changes in its files."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

from vicinal.cli.loop import keep_for_good, stop_on_signal
from vicinal.config.fleet import Config
from vicinal.wiring.access import access_files
from vicinal.wiring.fleets import FleetSources
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.reloading import ConfigWatch
from vicinal.wiring.watching import FileWatch


async def serve_until_stopped(
    path: Path, loaded: Config, live: LiveSystem, ready: Callable[[], None], *, until_input_ends: bool = False
) -> None:
    """`loaded` was just read from `path`; `ready` is called when clients may come. Raises like `LiveSystem.start`."""
    watch = ConfigWatch(path, os.environ, loaded)
    keys = FileWatch(lambda: access_files(loaded))
    sources = FleetSources(loaded, live, os.environ)

    def ask() -> None:
        watch.ask()
        keys.ask()

    with stop_on_signal(until_input_ends=until_input_ends) as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, ask)
        try:
            await live.start()
            keep_for_good()
            ready()
            sources.start()
            watch.start(sources.take_over)
            keys.start(live.access.renew)
            await stop.wait()
        finally:
            await watch.stop()
            await keys.stop()
            await sources.stop()
            await live.stop()
