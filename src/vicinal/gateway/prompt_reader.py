"""From a decoded body to what the core may know of its prompt: how many tokens, and the hashes of its blocks.

Tokens are exact where the model's tokenizer is here, agrees with the engines' (matching.py), and nothing in the body
changes the prompt in ways that only the engine knows. Otherwise the count is an estimate and the hashes are of the text
(text_hashes.py); a counter says so.
"""

from dataclasses import dataclass

from vicinal.domain.ids import ModelId
from vicinal.gateway.bodies import ChatBody, CompletionBody
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.errors import invalid
from vicinal.gateway.matching import Matching
from vicinal.gateway.prompts import BYTES_PER_TOKEN, Prompt, Tokenizer, pack, text_only
from vicinal.gateway.text_hashes import canonical_chat, text_hashes
from vicinal.kvindex.hashing import TOKEN_BYTES, chain
from vicinal.tokenizer.errors import ChatError
from vicinal.tokenizer.kinds import PromptKind


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that clients can name. `model_tokens_max` bounds prompt plus answer. No tokenizer: prompts that are not
    token ids are matched by their text. `tokenizer_folder` is from where another process loads the same tokenizer."""

    id: ModelId
    block_tokens: int
    model_tokens_max: int
    tokenizer: Tokenizer | None = None
    tokenizer_folder: str | None = None


@dataclass(frozen=True, slots=True)
class ReadPrompt:
    """`hashes` are of tokens when `by_text` is False. `kind` is None where no tokenizer had a part in it."""

    tokens: int
    exact: bool
    hashes: bytes = b""
    by_text: bool = False
    kind: PromptKind | None = None


class PromptReader:
    """Reads prompts of all models. `extra_keys` are what the engine mixes into the first block's hash."""

    def __init__(self, counters: GatewayCounters, matching: Matching) -> None:
        self._counters = counters
        self._matching = matching

    def chat(self, body: ChatBody, model: ServedModel, extra_keys: tuple[bytes, ...]) -> ReadPrompt:
        """Raises ApiError 400 for a chat that the model's template refuses."""
        kind = PromptKind.TOOLS if body.tools else PromptKind.CHAT
        plainly = body.renders_plainly and text_only(body.messages)
        if not plainly or not self._tokenises(model, kind):
            return self._by_text(canonical_chat(body), model, extra_keys)
        assert model.tokenizer is not None
        generate = body.add_generation_prompt is not False
        try:
            text = model.tokenizer.render_chat(body.messages, body.tools, generate, body.chat_template_kwargs)
        except ChatError as error:
            raise invalid(str(error), param=error.param) from None
        ids = model.tokenizer.packed(text, add_special_tokens=bool(body.add_special_tokens))
        return _by_tokens(ids, model, extra_keys, kind)

    def completion(
        self, body: CompletionBody, prompts: list[Prompt], model: ServedModel, extra_keys: tuple[bytes, ...]
    ) -> ReadPrompt:
        """Several prompts are counted only: their answer comes from one engine, as several requests in it."""
        if len(prompts) > 1:
            counts = [self._count(prompt, body, model) for prompt in prompts]
            return ReadPrompt(sum(count.tokens for count in counts), all(count.exact for count in counts))
        prompt = prompts[0]
        if not isinstance(prompt, str):
            ids, kind = pack(prompt), None
        elif self._tokenises(model, PromptKind.PLAIN):
            ids, kind = self._ids(prompt, body, model), PromptKind.PLAIN
        else:
            return self._by_text(_bytes(prompt), model, extra_keys)
        if body.truncate_prompt_tokens is not None:  # the engine cuts its beginning off
            return ReadPrompt(len(ids) // TOKEN_BYTES, exact=False)
        return _by_tokens(ids, model, extra_keys, kind)

    def _tokenises(self, model: ServedModel, kind: PromptKind) -> bool:
        return model.tokenizer is not None and self._matching.by_tokens(model.id, kind)

    def _count(self, prompt: Prompt, body: CompletionBody, model: ServedModel) -> ReadPrompt:
        if not isinstance(prompt, str):
            return ReadPrompt(len(prompt), exact=True)
        if self._tokenises(model, PromptKind.PLAIN):
            return ReadPrompt(len(self._ids(prompt, body, model)) // TOKEN_BYTES, exact=True)
        self._counters.estimated_prompts += 1
        return ReadPrompt(_estimate(_bytes(prompt)), exact=False)

    def _ids(self, prompt: str, body: CompletionBody, model: ServedModel) -> bytes:
        """Packed."""
        assert model.tokenizer is not None
        return model.tokenizer.packed(prompt, add_special_tokens=body.add_special_tokens is not False)

    def _by_text(self, text: bytes, model: ServedModel, extra_keys: tuple[bytes, ...]) -> ReadPrompt:
        self._counters.estimated_prompts += 1
        hashes = text_hashes(text, model.block_tokens, extra_keys)
        return ReadPrompt(_estimate(text), exact=False, hashes=hashes, by_text=True)


def _by_tokens(ids: bytes, model: ServedModel, extra_keys: tuple[bytes, ...], kind: PromptKind | None) -> ReadPrompt:
    """`ids` are packed."""
    hashes = chain(ids, model.block_tokens, extra_keys=extra_keys)
    return ReadPrompt(len(ids) // TOKEN_BYTES, exact=True, hashes=hashes, kind=kind)


def _estimate(text: bytes) -> int:
    return max(1, len(text) // BYTES_PER_TOKEN)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
