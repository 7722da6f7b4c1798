"""`vicinal engine`: emulated engines, all of a configuration's endpoints in one process."""

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from vicinal.cli.loop import run, stop_on_signal
from vicinal.config.fleet import Config
from vicinal.config.load import load
from vicinal.wiring.engines import make_fleet


def engine(
    *,
    config: Annotated[Path, Parameter(help="The cluster's TOML file; each of its endpoints becomes an engine.")],
    origin_s: Annotated[
        float | None, Parameter(help="Monotonic instant of model second 0, to share with other processes.")
    ] = None,
) -> None:
    """Run emulated engines: vLLM's HTTP, metrics, KV events and hand-off, with modelled time instead of GPUs.

    Prints one line when all of them listen, and runs until it is interrupted.
    """
    run(_engines(load(config, os.environ), origin_s))


async def _engines(config: Config, origin_s: float | None) -> None:
    fleet = make_fleet(config, origin_s)
    with stop_on_signal() as stop:
        await fleet.start()
        try:
            print(f"{len(config.endpoint)} engines of {config.model.name} listen", flush=True)
            await stop.wait()
        finally:
            await fleet.stop()
