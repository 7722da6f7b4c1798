"""`vicinal serve --relays N`: a core and N relays as processes, started, kept and stopped together (DESIGN 14).

This process carries nothing itself. It holds the API's port, so that it stays one whatever ends, and passes signals on.
"""

import asyncio
import errno
import signal
import socket
import tempfile
from pathlib import Path

import msgspec

from vicinal.config.fleet import Config
from vicinal.gateway.limits import Limits
from vicinal.wiring.kept import KeptChild

CORE_STOP_S = 20.0
"""The core has records to write and feeds to leave."""


class Ready(msgspec.Struct):
    """What a child says when it is ready: `url` is the admin address of a core, the API of a relay."""

    url: str
    port: int
    engines: int = 0


class Processes:
    """Raises ChildFailedError from `start` when one of them does not come up."""

    def __init__(self, path: Path, config: Config, relays: int, capture: Path | None) -> None:
        self._config = config
        self._folder = tempfile.TemporaryDirectory(prefix="vicinal-")
        self._port = hold_port(config.server.host, config.server.port)
        at = str(Path(self._folder.name) / "core")
        number = self._port.getsockname()[1]
        common = ["--config", str(path), "--socket", at]
        captured = [] if capture is None else ["--capture", str(capture)]
        self.core = KeptChild(
            "the scheduler", ["core", *common, "--relays", str(relays), "--api-port", str(number), *captured]
        )
        self.relays = tuple(
            KeptChild(f"relay-{n}", ["relay", *common, "--name", f"relay-{n}", "--port", str(number)])
            for n in range(1, relays + 1)
        )
        self.core_ready = Ready("", 0)
        self.api_url = ""

    async def start(self) -> None:
        """All of them serve when this returns. Then they are kept."""
        self.core_ready = msgspec.json.decode(await self.core.start(), type=Ready)
        self.core.arguments += ("--admin-port", str(self.core_ready.port))
        lines = await asyncio.gather(*[relay.start() for relay in self.relays])
        self.api_url = msgspec.json.decode(lines[0], type=Ready).url
        for kept in (self.core, *self.relays):
            kept.keep()

    def ask_reload(self) -> None:
        """As SIGHUP to each of them."""
        for kept in (self.core, *self.relays):
            kept.send_signal(signal.SIGHUP)

    async def stop(self) -> None:
        """Relays finish what runs, then the core goes. A caller that is cancelled here ends all at once."""
        grace_s = Limits().drain_s + 10.0
        try:
            await asyncio.gather(*[relay.stop(grace_s) for relay in self.relays])
        finally:
            try:
                await self.core.stop(CORE_STOP_S)
            finally:
                self._port.close()
                self._folder.cleanup()


def hold_port(host: str, port: int) -> socket.socket:
    """A socket that holds a port (0 takes a free one) without listening, so that relays can share it and others not.

    Raises OSError naming host and port. The port is tried alone first: sharing would let a second gateway in unseen.
    """
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    try:
        with socket.socket(family, kind) as alone:
            alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            alone.bind(address)
            alone.listen(1)
        held = socket.socket(family, kind)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(address)
    except OSError as error:
        cure = "the port is in use; set server.port to another one" if error.errno == errno.EADDRINUSE else str(error)
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {cure}") from None
    return held
