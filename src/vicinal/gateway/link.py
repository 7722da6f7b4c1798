"""The seam between relays and the core (DESIGN 14): events go up, effects come down.

In one process a post is a direct call. With relays of their own processes, the same values cross a Unix socket.
"""

from typing import Protocol

from vicinal.domain.effects import Answer, Cancel, Dispatch
from vicinal.domain.events import Event

RelayEffect = Dispatch | Cancel | Answer


class CoreLink(Protocol):
    """Where a relay posts its events."""

    def post(self, event: Event) -> None:
        """Tell the core. Effects come back through the relay's `perform`, perhaps before this returns."""
        ...
