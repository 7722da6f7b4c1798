"""`vicinal serve`: the gateway over real engines."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vicinal.cli.loop import run, stop_on_signal
from vicinal.clock import ModelClock
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.live import LiveSystem


def serve(
    *,
    config: Annotated[Path, Parameter(help="The TOML file that names the engines; see docs/configuration.md.")],
    capture: Annotated[
        Path | None, Parameter(help="Write the exact log of events, alarms and seeds to this file.")
    ] = None,
) -> None:
    """Serve an OpenAI-compatible API in front of vLLM engines, and decide for each request where it runs."""
    run(_serve(load(config, os.environ), capture))


async def _serve(config: Config, capture: Path | None) -> None:
    live = LiveSystem(config, ModelClock(), capture)
    with stop_on_signal() as stop:
        try:
            await live.start()
            print(f"{config.model.name} at {live.api_url}, {len(live.fleet)} engines", flush=True)
            print(f"metrics and state at {live.admin_url}", flush=True)
            await stop.wait()
        finally:
            await live.stop()
