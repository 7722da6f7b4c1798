"""The reading room: long bodies wait here for the reader process, the short ones among them first.

One body is read at a time. It may wait a second per MiB of it for shorter ones, so a stream of 16 MiB bodies does not
keep somebody's 300 KB waiting for more than the one that is being read, and nobody waits for ever. How many wait is
bounded by the memory that long bodies may take (body_pieces.py).

A reader that dies is replaced, and what it was reading is read once more by the new one. A body that ends two, or takes
too long, is refused: it may be what ended them.
"""

import asyncio
import contextlib
import heapq
import logging
from collections.abc import Iterable
from itertools import count

from vicinal.engines.long_body import LongBody, Pieces
from vicinal.gateway.caller import Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.limits import Limits
from vicinal.gateway.matching import Matching
from vicinal.gateway.parse import ParsedRequest
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.reading.messages import Job, Read, ReaderModel, Setup, Unread
from vicinal.gateway.reading.reader import Reader, ReaderLostError
from vicinal.gateway.traces import trace_of
from vicinal.gateway.trust import TrustGroups

_log = logging.getLogger(__name__)
_TRIES = 2
_HANDICAP_BYTES_PER_S = 1024 * 1024


class _Waiting:
    """A body and whoever waits for it."""

    def __init__(self, chat: bool, caller: Caller, body: Pieces, answer: "asyncio.Future[Read | Unread]") -> None:
        self.chat = chat
        self.caller = caller
        self.body = body
        self.answer = answer


class ReadingRoom:
    """Reads long bodies of all models. It starts its reader with the first one, or with `open`."""

    def __init__(
        self,
        models: Iterable[ServedModel],
        trust: TrustGroups,
        matching: Matching,
        counters: GatewayCounters,
        limits: Limits,
    ) -> None:
        self._models = tuple(models)
        self._trust = trust
        self._matching = matching
        self._counters = counters
        self._limits = limits
        self._waiting: list[tuple[float, int, _Waiting]] = []
        self._order = count()
        self._reader: Reader | None = None
        self._work: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """Of the reader, while there is one."""
        return None if self._reader is None else self._reader.process.pid

    async def open(self) -> None:
        """Have a reader. Raises OSError when there can be none."""
        if self._reader is None:
            self._reader = await Reader.start(self._setup())

    async def read(self, body: Pieces, caller: Caller, *, chat: bool) -> tuple[ParsedRequest, LongBody]:
        """Read a body. The request has no name yet (`RequestParser.adopt`). Raises ApiError like `RequestParser`, and
        503 when it cannot be read now. A caller that is cancelled need not wait; what it asked for is dropped."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Read | Unread] = loop.create_future()
        due_s = loop.time() + body.size_bytes / _HANDICAP_BYTES_PER_S
        heapq.heappush(self._waiting, (due_s, next(self._order), _Waiting(chat, caller, body, answer)))
        if self._work is None or self._work.done():
            self._work = loop.create_task(self._read_all())
        read = await answer
        if isinstance(read, Unread):  # raised here: an error that its frames know keeps the body they know, too
            raise ApiError(read.code, read.message, param=read.param)
        self._counters.estimated_prompts += read.estimated
        return read.parsed, LongBody(body, read.places)

    async def close(self) -> None:
        """Read no more. Whoever still waits is refused."""
        self._closed = True
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)
        for _, _, waiting in self._waiting:
            _tell(waiting, _unavailable("the gateway is stopping"))
        self._waiting.clear()
        await self._end_reader()

    async def _read_all(self) -> None:
        while self._waiting:
            waiting = heapq.heappop(self._waiting)[2]
            if waiting.answer.done():  # its client has gone
                continue
            try:
                answer = await self._read_one(waiting)
            except asyncio.CancelledError:
                _tell(waiting, _unavailable("the gateway is stopping"))
                raise
            except Exception as error:  # whatever it is, the bodies that wait are read
                _log.error("reading a long body failed: %s", trace_of(error))
                _tell(waiting, Unread(ErrorCode.INTERNAL_ERROR, "internal error of the gateway"))
                await self._end_reader()  # it may be in the middle of a job
            else:
                _tell(waiting, answer)

    async def _read_one(self, waiting: _Waiting) -> Read | Unread:
        job = Job(waiting.chat, waiting.caller, list(self._matching.by_text), waiting.body.size_bytes)
        for _ in range(_TRIES):
            try:
                async with asyncio.timeout(self._limits.reading_s):
                    await self.open()
                    assert self._reader is not None
                    answer = await self._reader.read(job, waiting.body)
                self._counters.long_bodies += 1
                return answer
            except ReaderLostError:
                self._counters.readers_lost += 1
                _log.error("the reader of long bodies has ended by itself; another one is started")
                await self._end_reader()
            except TimeoutError:
                self._counters.readers_lost += 1
                _log.error("a body of %d bytes was not read in %g s", job.body_bytes, self._limits.reading_s)
                await self._end_reader()
                break
            except OSError as error:
                _log.error("no reader of long bodies can be started: %s", error)
                break
        self._counters.bodies_unread += 1
        return _unavailable("this body could not be read")

    async def _end_reader(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            with contextlib.suppress(OSError):
                await reader.end()

    def _setup(self) -> Setup:
        models = []
        for model in self._models:
            if model.tokenizer is not None and model.tokenizer_folder is None:
                raise ValueError(f"{model.id}: a tokenizer without a folder cannot be loaded by another process")
            told = ReaderModel(model.id, model.block_tokens, model.model_tokens_max, model.tokenizer_folder)
            models.append(told)
        return Setup(models, self._trust)


def _unavailable(message: str) -> Unread:
    return Unread(ErrorCode.BODY_NOT_READ, message)


def _tell(waiting: _Waiting, answer: Read | Unread) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(answer)
