"""One question to an engine's replay address, and how patient a feed is with an address that does not answer."""

import asyncio
from typing import Any

import zmq
import zmq.asyncio

from vicinal.gateway.backoff import doubled
from vicinal.gateway.feeds.sockets import SocketLimits, new_socket

AGAIN_S_MAX = 60.0
PATIENCE_FACTOR_MAX = 16.0


class ReplayQuestion:
    """Asks for all batches from number `start` on. A DEALER of its own, so that late answers reach nobody."""

    def __init__(self, context: zmq.asyncio.Context, url: str, start: int, limits: SocketLimits) -> None:
        self._dealer = new_socket(context, zmq.DEALER, limits)
        try:
            self._dealer.connect(url)
        except zmq.ZMQError:
            self.close()
            raise
        self._start = start

    async def ask(self) -> None:
        await self._dealer.send_multipart([b"", self._start.to_bytes(8, "big")])

    async def answer(self, patience_s: float) -> list[bytes]:
        """The next message. Raises TimeoutError when none comes for `patience_s`."""
        async with asyncio.timeout(patience_s):  # wait_for may swallow a cancellation that comes with the answer
            frames: list[bytes] = await self._dealer.recv_multipart()
        return frames

    def close(self) -> None:
        self._dealer.close(linger=0)

    def __enter__(self) -> "ReplayQuestion":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Patience:
    """An address that let us wait is left alone for a while, longer each time, and then waited for longer too.

    While it is left alone a hole is not asked about: waiting would hold up the removals behind it.
    """

    def __init__(self, first_s: float) -> None:
        self._first_s = first_s
        self._failures = 0
        self._again_s = 0.0

    def tries(self, now_s: float) -> bool:
        """Whether to ask at all."""
        return now_s >= self._again_s

    @property
    def longest_s(self) -> float:
        """How long to wait for a first answer when nobody is held up by that."""
        return doubled(self._first_s, self._failures, self._first_s * PATIENCE_FACTOR_MAX)

    def failed(self, now_s: float) -> None:
        self._failures += 1
        self._again_s = now_s + doubled(self._first_s, self._failures, AGAIN_S_MAX)

    def answered(self) -> None:
        self._failures = 0
        self._again_s = 0.0
