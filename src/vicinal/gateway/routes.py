"""What each path of the main address does."""

from collections.abc import Callable, Sequence

import msgspec

from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Outcome
from vicinal.engines.long_body import LongBody, Pieces
from vicinal.gateway.access import Access
from vicinal.gateway.caller import Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError, outcome_body, outcome_headers
from vicinal.gateway.http_message import JSON, HttpRequest
from vicinal.gateway.long_request import LongRequest
from vicinal.gateway.parse import ParsedRequest, RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.reading.room import ReadingRoom
from vicinal.gateway.relay import Relay
from vicinal.gateway.responder import Responder

_CHAT = b"/v1/chat/completions"

Answerer = Callable[[HttpRequest, Responder], None]


class Routes:
    """The hot routes go to the relay; the others answer from memory. All but `/health` are for those whom `access`
    knows. `unready` says why no request should come now, "" while they may."""

    def __init__(
        self,
        relay: Relay,
        parser: RequestParser,
        room: ReadingRoom,
        counters: GatewayCounters,
        access: Access,
        unready: Callable[[], str],
        started_unix_s: int,
    ) -> None:
        self._relay = relay
        self._parser = parser
        self._room = room
        self._counters = counters
        self._access = access
        self._unready = unready
        self._started_unix_s = started_unix_s
        self._routes: dict[bytes, tuple[bytes, Answerer]] = {
            _CHAT: (b"POST", self._complete),
            b"/v1/completions": (b"POST", self._complete),
            b"/v1/models": (b"GET", self._list_models),
            b"/health": (b"GET", self._health),
        }

    def handle(self, request: HttpRequest, responder: Responder) -> None:
        """Answer, or see to it that the request will be answered."""
        method, answerer = self._routes.get(request.path, (b"", None))
        if answerer is None:
            paths = ", ".join(path.decode() for path in self._routes)
            self._refuse(responder, ApiError(ErrorCode.UNKNOWN_PATH, f"no such path; served: {paths}"))
        elif request.method != method:
            message = f"{request.path.decode()} takes {method.decode()} only"
            refusal = ApiError(ErrorCode.METHOD_NOT_ALLOWED, message)
            self._refuse(responder, refusal, b"Allow: %b\r\n" % method)
        else:
            answerer(request, responder)

    def _complete(self, request: HttpRequest, responder: Responder) -> None:
        self._counters.requests += 1
        try:
            caller = self._access.caller(request)
        except ApiError as error:
            self._refuse(responder, error, _id_line(self._relay.name(request.headers)))
            return
        closed = self._relay.closed.refusal(caller.tenant)
        if closed is not None:
            self._refuse_unread(closed, request, responder)
        elif isinstance(request.body, Pieces):
            self._complete_long(request, request.body, caller, responder)
        else:
            self._complete_short(request, request.body, caller, responder)

    def _complete_short(self, request: HttpRequest, body: bytes, caller: Caller, responder: Responder) -> None:
        request_id = self._relay.name(request.headers)
        parse = self._parser.chat if request.path == _CHAT else self._parser.completion
        try:
            parsed = parse(request_id, body, caller)
        except ApiError as error:
            self._refuse(responder, error, _id_line(request_id))
            return
        self._relay.submit(parsed, body, request.path, request.headers, responder)

    def _complete_long(self, request: HttpRequest, body: Pieces, caller: Caller, responder: Responder) -> None:
        """The same, except that the request is named when its body has been read: until then the relay does not know it
        and could not tell another one of that name."""
        path, headers = request.path, request.headers

        def submit(parsed: ParsedRequest, long: LongBody) -> None:
            parsed = self._parser.adopt(parsed, self._relay.name(headers))
            self._relay.submit(parsed, long, path, headers, responder)

        def refuse(error: ApiError) -> None:
            self._refuse(responder, error, _id_line(self._relay.name(headers)))

        LongRequest(self._room, self._counters, responder, submit, refuse).read(body, caller, chat=path == _CHAT)

    def _refuse_unread(self, outcome: Outcome, request: HttpRequest, responder: Responder) -> None:
        """What the core would answer, without the work of asking it."""
        self._counters.refused += 1
        self._counters.refused_unread += 1
        extra = outcome_headers(outcome) + _id_line(self._relay.name(request.headers))
        responder.respond(outcome.ending.http_status, JSON, outcome_body(outcome), extra)

    def _list_models(self, request: HttpRequest, responder: Responder) -> None:
        try:
            caller = self._access.caller(request)
        except ApiError as error:
            self._refuse(responder, error)
            return
        models = [model for model in self._parser.models.values() if caller.may_use(model.id)]
        responder.respond(200, JSON, _model_list(models, self._started_unix_s))

    def _health(self, _request: HttpRequest, responder: Responder) -> None:
        if reason := self._unready():
            responder.respond(503, JSON, msgspec.json.encode({"status": reason}))
        else:
            responder.respond(200, JSON, b'{"status":"ok"}')

    def _refuse(self, responder: Responder, error: ApiError, extra: bytes = b"") -> None:
        self._counters.refused += 1
        self._counters.models_forbidden += error.reason is ErrorCode.MODEL_FORBIDDEN
        responder.respond(error.status, JSON, error.body(), error.header_lines() + extra)


def _id_line(request_id: RequestId) -> bytes:
    return f"X-Request-Id: {request_id}\r\n".encode()


def _model_list(models: Sequence[ServedModel], created_unix_s: int) -> bytes:
    data = [
        {
            "id": model.id,
            "object": "model",
            "created": created_unix_s,
            "owned_by": "vicinal",
            "max_model_len": model.model_tokens_max,
        }
        for model in models
    ]
    return msgspec.json.encode({"object": "list", "data": data})
