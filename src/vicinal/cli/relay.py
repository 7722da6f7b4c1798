"""`vicinal relay`: one relay's process of `vicinal serve --relays N`, which starts it."""

import asyncio
import os
import signal
from pathlib import Path

from vicinal.cli.loop import keep_for_good, run, say_ready, stop_on_signal
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.access import access_files
from vicinal.wiring.processes import Ready
from vicinal.wiring.relay import RelaySystem
from vicinal.wiring.watching import FileWatch


def relay(*, config: Path, socket: Path, name: str, port: int) -> None:
    """One relay's process of `vicinal serve --relays N`, which starts it."""
    run(_relay(load(config, os.environ), socket, name, port))


async def _relay(config: Config, socket: Path, name: str, port: int) -> None:
    keys = FileWatch(lambda: access_files(config))
    system = RelaySystem(config, name, socket)
    with stop_on_signal(until_input_ends=True) as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, keys.ask)
        try:
            await system.start(port)
            keep_for_good()
            say_ready(Ready(f"{config.tls.scheme}://{config.server.host}:{port}/v1", port))
            keys.start(system.access.renew)
            await stop.wait()
        finally:
            await keys.stop()
            await system.stop()
