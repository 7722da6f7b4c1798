"""`vicinal core`: the scheduler's process of `vicinal serve --relays N`, which starts it."""

import os
from pathlib import Path

from msgspec.structs import replace

from vicinal.cli.loop import run, say_ready
from vicinal.cli.serving import serve_until_stopped
from vicinal.clock import ModelClock
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.fronts import RelaysFront
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.processes import Ready


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
    live = LiveSystem(config, ModelClock(), capture, front=lambda core: RelaysFront(core, socket, relays))

    def ready() -> None:
        say_ready(Ready(live.admin_url, live.admin_port, len(live.fleet)))

    await serve_until_stopped(path, loaded, live, ready, until_input_ends=True)
