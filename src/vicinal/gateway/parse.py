"""From an HTTP body to a `Request`: types, limits, tokens, hashes, wishes.

The text of a request stays in its exchange; the core gets sizes and hashes (prompt_reader.py).
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.ids import ModelId, RequestId
from vicinal.domain.request import Request
from vicinal.engines.kv_fields import extra_key_bytes
from vicinal.gateway.bodies import CommonBody, Readable, decode_chat, decode_completion
from vicinal.gateway.caller import Caller
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import ApiError, invalid
from vicinal.gateway.matching import Matching
from vicinal.gateway.prompt_reader import PromptReader, ReadPrompt, ServedModel
from vicinal.gateway.prompts import counted_ids, decode_prompts
from vicinal.gateway.trust import TrustGroups
from vicinal.tokenizer.kinds import PromptKind

COMPLETION_TOKENS = 16
"""What OpenAI's completions route, and vLLM's, generate when max_tokens is absent."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """What the gateway itself needs to know of a request besides the core's view of it.

    `tokenised` is the kind of a prompt that was tokenised here, exactly as far as is known: its engine's own count of
    tokens can contradict that. None for all others. `salt` goes to engines as `cache_salt`, instead of the client's;
    with None its body stays as it is. With `ignore_eos` an answer runs to its limit. `prioritised`: the body says a
    `priority`, which engines do not get: there it would pass other tenants' requests."""

    request: Request
    chat: bool
    include_usage: bool
    tokenised: PromptKind | None = None
    salt: str | None = None
    ignore_eos: bool = False
    prioritised: bool = False


class RequestParser:
    """Parses bodies of both routes against a set of models. Raises ApiError for everything it refuses.

    `cpu_s` counts the seconds of processors that parsing takes: this thread's, which does all of it for bodies that
    are read here.
    """

    def __init__(
        self,
        models: Iterable[ServedModel],
        lengths: OutputLengths,
        counters: GatewayCounters,
        matching: Matching | None = None,
        trust: TrustGroups | None = None,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        self.models = {model.id: model for model in models}
        self._lengths = lengths
        self._prompts = PromptReader(counters, matching or Matching())
        self._trust = trust or TrustGroups()
        self._cpu_s = cpu_s

    def chat(self, request_id: RequestId, body: Readable, caller: Caller) -> ParsedRequest:
        """A body of `/v1/chat/completions`."""
        begun_s = self._cpu_s()
        decoded = decode_chat(body)
        model = self._model(decoded.model, caller)
        salt = self._salt(decoded, caller)
        prompt = self._prompts.chat(decoded, model, _extra_keys(salt))
        limit = decoded.max_completion_tokens or decoded.max_tokens
        request = self._request(request_id, decoded, model, prompt, limit, "messages", caller, begun_s, splittable=True)
        return self._parsed(request, decoded, prompt, salt, chat=True)

    def completion(self, request_id: RequestId, body: Readable, caller: Caller) -> ParsedRequest:
        """A body of `/v1/completions`."""
        begun_s = self._cpu_s()
        decoded = decode_completion(body)
        model = self._model(decoded.model, caller)
        if decoded.truncate_prompt_tokens is None:
            ids = counted_ids(decoded.prompt, model.model_tokens_max - 1)
            if ids is not None:
                raise _too_long(model, ids, "prompt")
        prompts = decode_prompts(decoded.prompt)
        salt = self._salt(decoded, caller)
        prompt = self._prompts.completion(decoded, prompts, model, _extra_keys(salt))
        splittable = len(prompts) == 1
        limit = COMPLETION_TOKENS if decoded.max_tokens is None else decoded.max_tokens
        request = self._request(
            request_id, decoded, model, prompt, limit, "prompt", caller, begun_s, splittable=splittable
        )
        return self._parsed(request, decoded, prompt, salt, chat=False)

    def adopt(self, parsed: ParsedRequest, request_id: RequestId) -> ParsedRequest:
        """What another process read, with its name and the length of answers that is expected here."""
        limit, model = parsed.request.max_output_tokens, parsed.request.model
        expected = self._lengths.predict(model, limit, ignore_eos=parsed.ignore_eos)
        return replace(parsed, request=replace(parsed.request, id=request_id, expected_output_tokens=expected))

    def _parsed(
        self, request: Request, body: CommonBody, prompt: ReadPrompt, salt: str | None, *, chat: bool
    ) -> ParsedRequest:
        sent = salt if self._trust.several else None
        prioritised = body.priority is not None
        return ParsedRequest(
            request, chat, _includes_usage(body), prompt.kind, sent, bool(body.ignore_eos), prioritised
        )

    def _salt(self, body: CommonBody, caller: Caller) -> str | None:
        """What keeps the caller's prompts apart from those of others."""
        if body.cache_salt == "":
            raise invalid("cache_salt must not be empty", param="cache_salt")
        return self._trust.salt(caller.tenant, body.cache_salt)

    def _model(self, name: str, caller: Caller) -> ServedModel:
        model = self.models.get(ModelId(name))
        if model is None:
            known = ", ".join(model for model in self.models if caller.may_use(model))
            message = f"The model `{name}` does not exist. Served: {known}."
            raise ApiError(ErrorCode.MODEL_NOT_FOUND, message, param="model")
        if not caller.may_use(model.id):
            message = f"This API key may not use the model `{name}`."
            raise ApiError(ErrorCode.MODEL_FORBIDDEN, message, param="model")
        return model

    def _request(
        self,
        request_id: RequestId,
        body: CommonBody,
        model: ServedModel,
        prompt: ReadPrompt,
        max_tokens: int | None,
        prompt_field: str,
        caller: Caller,
        begun_s: float,
        *,
        splittable: bool,
    ) -> Request:
        room = model.model_tokens_max - prompt.tokens
        if prompt.exact and splittable and room < 1:
            # several prompts have a limit each, and an estimate is no fact: there the engine decides
            raise _too_long(model, prompt.tokens, prompt_field)
        room = max(1, room)
        limit = room if max_tokens is None else min(max_tokens, room)
        return Request(
            id=request_id,
            model=model.id,
            tenant=caller.tenant,
            service=caller.service,
            prompt_tokens=prompt.tokens,
            block_tokens=model.block_tokens,
            block_hashes=prompt.hashes,
            max_output_tokens=limit,
            expected_output_tokens=self._lengths.predict(model.id, limit, ignore_eos=bool(body.ignore_eos)),
            priority=body.priority or 0,
            streamed=bool(body.stream),
            splittable=splittable and body.single_answer,
            exact=prompt.exact,
            inferred_only=prompt.by_text,
            gateway_cpu_s=self._cpu_s() - begun_s,
        )


def _too_long(model: ServedModel, tokens: int, field: str) -> ApiError:
    return ApiError(
        ErrorCode.CONTEXT_LENGTH_EXCEEDED,
        f"This model's maximum context length is {model.model_tokens_max} tokens, but the prompt has "
        f"{tokens} and needs room for at least 1 more. Shorten the prompt.",
        param=field,
    )


def _extra_keys(salt: str | None) -> tuple[bytes, ...]:
    """As the engine mixes the salt into the hash of a prompt's first block."""
    return () if salt is None else (extra_key_bytes([salt]),)


def _includes_usage(body: CommonBody) -> bool:
    return bool(body.stream_options and body.stream_options.include_usage)
