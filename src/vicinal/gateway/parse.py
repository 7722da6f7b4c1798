"""From an HTTP body to a `Request`: types, limits, tokens, hashes, wishes.

The text of a request stays in its exchange; the core gets sizes and hashes. Where tokens cannot be known exactly, the
request has no hashes (nothing is known of its prompt) and an estimated length, and a counter says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.request import BATCH, INTERACTIVE, Request, ServiceClass
from vicinal.engines.kv_events import extra_key_bytes
from vicinal.gateway.bodies import ChatBody, CommonBody, CompletionBody, decode_chat, decode_completion
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError
from vicinal.gateway.prompts import BYTES_PER_TOKEN, Prompt, Tokenizer, decode_prompts, pack, text_only
from vicinal.kvindex.hashing import chain
from vicinal.tokenizer.errors import ChatError

DEFAULT_TENANT = TenantId("default")

COMPLETION_TOKENS = 16
"""What OpenAI's completions route, and vLLM's, generate when max_tokens is absent."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that clients can name. `model_tokens_max` bounds prompt plus answer. No tokenizer: no KV awareness
    for text prompts."""

    id: ModelId
    block_tokens: int
    model_tokens_max: int
    tokenizer: Tokenizer | None = None


@dataclass(frozen=True, slots=True)
class TrustedHeaders:
    """Headers that the operator's own front sets; None: nobody is believed. Names in lower case.

    `tenant` names the header with the tenant; `service_class` the one with the class of service, by name.
    """

    tenant: str | None = None
    service_class: str | None = None
    classes: tuple[ServiceClass, ...] = (INTERACTIVE, BATCH)


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What the gateway itself needs to know of a request besides the core's view of it."""

    request: Request
    chat: bool
    include_usage: bool


@dataclass(frozen=True, slots=True)
class _Tokens:
    count: int
    exact: bool
    hashes: bytes = b""


class RequestParser:
    """Parses bodies of both routes against a set of models. Raises ApiError for everything it refuses."""

    def __init__(
        self,
        models: Iterable[ServedModel],
        lengths: OutputLengths,
        counters: GatewayCounters,
        trusted: TrustedHeaders | None = None,
    ) -> None:
        self.models = {model.id: model for model in models}
        self._lengths = lengths
        self._counters = counters
        self._trusted = trusted or TrustedHeaders()
        self._classes = {service.name: service for service in self._trusted.classes}

    def chat(self, request_id: RequestId, body: bytes, headers: Mapping[bytes, bytes]) -> ParsedRequest:
        """A body of `/v1/chat/completions`. `headers` have lower-case names."""
        decoded = decode_chat(body)
        model = self._model(decoded.model)
        tokens = self._chat_tokens(decoded, model, len(body))
        limit = decoded.max_completion_tokens or decoded.max_tokens
        request = self._request(request_id, decoded, model, tokens, limit, "messages", headers, splittable=True)
        return ParsedRequest(request, True, _includes_usage(decoded))

    def completion(self, request_id: RequestId, body: bytes, headers: Mapping[bytes, bytes]) -> ParsedRequest:
        """A body of `/v1/completions`."""
        decoded = decode_completion(body)
        model = self._model(decoded.model)
        prompts = decode_prompts(decoded.prompt)
        tokens = self._completion_tokens(decoded, prompts, model)
        splittable = len(prompts) == 1
        limit = COMPLETION_TOKENS if decoded.max_tokens is None else decoded.max_tokens
        request = self._request(request_id, decoded, model, tokens, limit, "prompt", headers, splittable=splittable)
        return ParsedRequest(request, False, _includes_usage(decoded))

    def _model(self, name: str) -> ServedModel:
        model = self.models.get(ModelId(name))
        if model is None:
            known = ", ".join(self.models)
            raise ApiError(
                404, f"The model `{name}` does not exist. Served: {known}.", param="model", code="model_not_found"
            )
        return model

    def _chat_tokens(self, body: ChatBody, model: ServedModel, body_bytes: int) -> _Tokens:
        if model.tokenizer is None or not body.renders_plainly or not text_only(body.messages):
            return self._estimate(body_bytes)
        generate = body.add_generation_prompt is not False
        try:
            ids = model.tokenizer.encode_chat(body.messages, body.tools, generate, body.chat_template_kwargs)
        except ChatError as error:
            raise ApiError(400, str(error), param=error.param) from None
        return self._hashed(ids, body, model)

    def _completion_tokens(self, body: CompletionBody, prompts: list[Prompt], model: ServedModel) -> _Tokens:
        if len(prompts) > 1:
            counts = [self._count(prompt, model) for prompt in prompts]
            return _Tokens(sum(count.count for count in counts), all(count.exact for count in counts))
        prompt = prompts[0]
        if not isinstance(prompt, str):
            return self._hashed(prompt, body, model)
        if model.tokenizer is None:
            return self._count(prompt, model)
        return self._hashed(model.tokenizer.encode(prompt), body, model)

    def _count(self, prompt: Prompt, model: ServedModel) -> _Tokens:
        if not isinstance(prompt, str):
            return _Tokens(len(prompt), True)
        if model.tokenizer is None:
            return self._estimate(len(prompt.encode("utf-8", "surrogatepass")))
        return _Tokens(len(model.tokenizer.encode(prompt)), True)

    def _estimate(self, text_bytes: int) -> _Tokens:
        self._counters.estimated_prompts += 1
        return _Tokens(max(1, text_bytes // BYTES_PER_TOKEN), False)

    def _hashed(self, ids: list[int], body: CommonBody, model: ServedModel) -> _Tokens:
        extra = () if body.cache_salt is None else (extra_key_bytes([body.cache_salt]),)
        return _Tokens(len(ids), True, chain(pack(ids), model.block_tokens, extra_keys=extra))

    def _request(
        self,
        request_id: RequestId,
        body: CommonBody,
        model: ServedModel,
        tokens: _Tokens,
        max_tokens: int | None,
        prompt_field: str,
        headers: Mapping[bytes, bytes],
        *,
        splittable: bool,
    ) -> Request:
        room = model.model_tokens_max - tokens.count
        if tokens.exact and splittable and room < 1:
            # several prompts have a limit each, and an estimate is no fact: there the engine decides
            raise ApiError(
                400,
                f"This model's maximum context length is {model.model_tokens_max} tokens, but the prompt has "
                f"{tokens.count} and needs room for at least 1 more. Shorten the prompt.",
                param=prompt_field,
                code="context_length_exceeded",
            )
        room = max(1, room)
        limit = room if max_tokens is None else min(max_tokens, room)
        return Request(
            id=request_id,
            model=model.id,
            tenant=self._tenant(headers),
            service=self._service(headers),
            prompt_tokens=tokens.count,
            block_tokens=model.block_tokens,
            block_hashes=tokens.hashes,
            max_output_tokens=limit,
            expected_output_tokens=self._lengths.predict(model.id, limit, ignore_eos=bool(body.ignore_eos)),
            streamed=bool(body.stream),
            splittable=splittable and body.single_answer,
        )

    def _tenant(self, headers: Mapping[bytes, bytes]) -> TenantId:
        name = self._trusted.tenant
        value = headers.get(name.encode()) if name else None
        return TenantId(value.decode("latin-1")) if value else DEFAULT_TENANT

    def _service(self, headers: Mapping[bytes, bytes]) -> ServiceClass:
        header = self._trusted.service_class
        value = headers.get(header.encode()) if header else None
        if not value:
            return INTERACTIVE
        service = self._classes.get(value.decode("latin-1"))
        if service is None:
            known = ", ".join(self._classes)
            raise ApiError(400, f"unknown class of service {value.decode('latin-1')!r}; known: {known}", param=header)
        return service


def _includes_usage(body: CommonBody) -> bool:
    return bool(body.stream_options and body.stream_options.include_usage)
