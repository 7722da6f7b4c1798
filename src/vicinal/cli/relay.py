"""`vicinal relay`: one relay's process of `vicinal serve --relays N`, which starts it."""

import asyncio
import os
import signal
from pathlib import Path

from vicinal.cli.loop import run, say_ready, stop_on_signal
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.processes import Ready
from vicinal.wiring.relay import RelaySystem


def relay(*, config: Path, socket: Path, name: str, port: int) -> None:
    """One relay's process of `vicinal serve --relays N`, which starts it."""
    run(_relay(load(config, os.environ), socket, name, port))


async def _relay(config: Config, socket: Path, name: str, port: int) -> None:
    system = RelaySystem(config, name, socket)
    with stop_on_signal(until_input_ends=True) as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, lambda: None)  # the fleet comes from the core
        try:
            await system.start(port)
            say_ready(Ready(f"http://{config.server.host}:{port}/v1", port))
            await stop.wait()
        finally:
            await system.stop()
