"""A request whose long body is being read elsewhere, until the relay has it, or its client has gone."""

import asyncio
import logging
from collections.abc import Callable

from vicinal.engines.long_body import LongBody, Pieces
from vicinal.gateway.caller import Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.reading.room import ReadingRoom
from vicinal.gateway.responder import Responder
from vicinal.gateway.traces import trace_of

_log = logging.getLogger(__name__)

Submit = Callable[[ParsedRequest, LongBody], None]
Refuse = Callable[[ApiError], None]


class LongRequest:
    """Exactly one of `submit` and `refuse` is called, unless the client leaves before."""

    def __init__(
        self, room: ReadingRoom, counters: GatewayCounters, responder: Responder, submit: Submit, refuse: Refuse
    ) -> None:
        self._room = room
        self._counters = counters
        self._responder = responder
        self._submit = submit
        self._refuse = refuse
        self._task: asyncio.Task[None] | None = None

    def read(self, body: Pieces, caller: Caller, *, chat: bool) -> None:
        """Begin."""
        self._responder.listener = self
        self._task = asyncio.get_running_loop().create_task(self._read(body, caller, chat))

    def client_gone(self) -> None:
        if self._task is not None and not self._task.done():
            self._counters.clients_gone += 1
            self._task.cancel()

    def pause(self) -> None:
        """Nothing is written yet."""

    def resume(self) -> None:
        """Nothing is written yet."""

    async def _read(self, body: Pieces, caller: Caller, chat: bool) -> None:
        try:
            parsed, long = await self._room.read(body, caller, chat=chat)
        except ApiError as error:
            self._refuse(error)
        except Exception as error:
            _log.error("reading a long body failed: %s", trace_of(error))
            self._refuse(ApiError(ErrorCode.INTERNAL_ERROR, "internal error of the gateway"))
        else:
            self._submit(parsed, long)
