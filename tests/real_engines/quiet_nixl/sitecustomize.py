"""For engines under test only: NIXL's progress thread, which spins, pauses between turns.

It would take a core from each engine, and two cores run the engines, the gateway and the client.
"""

from typing import Any

PAUSE_US = 100

try:
    from nixl import _bindings as bindings
except ImportError:
    bindings = None  # pip, for one, runs without it

if bindings is not None:
    made = bindings.nixlAgent

    def paused(name: str, config: Any) -> Any:
        config.pthrDelay = PAUSE_US
        return made(name, config)

    bindings.nixlAgent = paused
