"""`vicinal serve`: the gateway over real engines."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, validators

from vicinal.cli.loop import run, stop_on_signal
from vicinal.cli.serving import serve_until_stopped
from vicinal.clock import ModelClock
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.live import LiveSystem
from vicinal.wiring.processes import Processes


def serve(
    *,
    config: Annotated[Path, Parameter(help="The TOML file that names the engines; see docs/configuration.md.")],
    capture: Annotated[
        Path | None,
        Parameter(
            help="Write the exact log of events, alarms and seeds to this file. It holds the token ids of prompts that "
            "engines' KV events name: keep it as you would keep prompts."
        ),
    ] = None,
    relays: Annotated[
        int | None,
        Parameter(
            help="Carry requests in this many processes beside the scheduler's; 0: all in one. [server.relays]",
            validator=validators.Number(gte=0, lte=256),
        ),
    ] = None,
) -> None:
    """Serve an OpenAI-compatible API in front of LLM engines, and decide for each request where it runs.

    Changes of the file's [[endpoint]] tables, and of the file of places that it names, are taken over while it runs,
    within two seconds or at SIGHUP, and so are the files of keys (docs/access.md); all else needs a restart, and is
    told. A file that is wrong changes nothing. With a [kubernetes] section, pods are endpoints too, and come and go
    (docs/discovery.md).

    One process uses one core of the machine. With --relays N, N processes parse, tokenise and carry bytes, and one
    decides; each is started again if it ends (docs/processes.md).

    SIGTERM or SIGINT lets answers under way finish; a second one does not.
    """
    loaded = load(config, os.environ)
    count = loaded.server.relays if relays is None else relays
    if count:
        run(_serve_apart(config, loaded, count, capture))
    else:
        run(_serve(config, loaded, capture))


async def _serve(path: Path, config: Config, capture: Path | None) -> None:
    live = LiveSystem(config, ModelClock(), capture)

    def ready() -> None:
        print(f"{config.model.name} at {live.api_url}, {len(live.fleet)} engines", flush=True)
        print(f"metrics and state at {live.admin_url}", flush=True)

    await serve_until_stopped(path, config, live, ready)


async def _serve_apart(path: Path, config: Config, relays: int, capture: Path | None) -> None:
    processes = Processes(path, config, relays, capture)
    with stop_on_signal() as stop:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, processes.ask_reload)
        try:
            await processes.start()
            engines = processes.core_ready.engines
            print(f"{config.model.name} at {processes.api_url}, {engines} engines, {relays} relays", flush=True)
            print(f"metrics and state at {processes.core_ready.url}", flush=True)
            await stop.wait()
        finally:
            await processes.stop()
