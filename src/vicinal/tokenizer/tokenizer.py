"""A model's tokenizer: its tokenizer.json and its chat template, from one folder.

Special tokens come into a prompt once. For a plain completion the tokenizer adds them (`add_special_tokens=True`, what
its post-processor says: many add a BOS, the packaged one adds nothing). A rendered chat has them as text already, put
there by the template; they are read as their ids, and nothing is added. Both are vLLM's defaults.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import msgspec

from vicinal.tokenizer.backend import Backend, open_backend
from vicinal.tokenizer.errors import ChatError, TokenizerError
from vicinal.tokenizer.messages import normalised_tools
from vicinal.tokenizer.template import ChatTemplate


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Text and chats to token ids. `special_ids` are the ids that stand for no text; workloads avoid them."""

    inner: Backend
    templates: Mapping[str, ChatTemplate]
    special_ids: frozenset[int]

    @classmethod
    def load(cls, folder: str | Path, now: Callable[[], datetime] = datetime.now) -> Self:
        """The tokenizer in `folder` (tokenizer.json; tokenizer_config.json and chat_template.jinja if they are there).

        `now` is what a template's `strftime_now` reads. Raises TokenizerError naming the file at fault.
        """
        folder = Path(folder)
        inner = open_backend(folder / "tokenizer.json")
        settings = _json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").exists() else {}
        special_tokens = {name: text for name, value in settings.items() if (text := _token_text(name, value))}
        sources = _template_sources(folder, settings)
        added = _json(folder / "tokenizer.json").get("added_tokens") or []
        return cls(
            inner,
            {name: ChatTemplate(source, special_tokens, now) for name, source in sources.items()},
            frozenset(int(token["id"]) for token in added if token.get("special")),
        )

    @property
    def backend(self) -> str:
        """`fastokens`, or `tokenizers` for a tokenizer that fastokens does not know (slower, equal ids)."""
        return self.inner.name

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary, added tokens included."""
        return self.inner.vocab_size

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Token ids of a plain prompt; see the module's docstring for `add_special_tokens`."""
        return self.inner.encode(text, add_special_tokens)

    def packed(self, text: str, *, add_special_tokens: bool = True) -> bytes:
        """What `encode` gives, as little-endian uint32: the form that hashes are chained over."""
        return self.inner.packed(text, add_special_tokens)

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
        *,
        add_special_tokens: bool = False,
    ) -> list[int]:
        """Token ids of a chat: `render_chat`, with its special tokens as ids and, as a rule, none added."""
        return self.encode(
            self.render_chat(messages, tools, add_generation_prompt, arguments), add_special_tokens=add_special_tokens
        )

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        """The text of `ids`. Bytes that are no whole character come out as U+FFFD."""
        return self.inner.decode(list(ids), skip_special_tokens)

    def render_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt's text. `arguments` are further variables of the template (vLLM: `chat_template_kwargs`).

        Raises ChatError when the model has no template or the messages do not fit it.
        """
        template = self.templates.get("tool_use" if tools else "default") or self.templates.get("default")
        if template is None:
            raise ChatError("this model has no chat template; use /v1/completions", "model")
        told = None if tools is None else normalised_tools(tools)
        return template.render(messages, told, add_generation_prompt, arguments or {})


def _json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise TokenizerError(f"{path}: {error}") from None


def _token_text(name: str, value: Any) -> str:
    """The text of a special token: written as such, or as an object with its flags."""
    if not name.endswith("_token"):
        return ""
    text = value.get("content") if isinstance(value, Mapping) else value
    return text if isinstance(text, str) else ""


def _template_sources(folder: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """Templates by name. A file of its own goes before the one in tokenizer_config.json, as in Hugging Face."""
    own = folder / "chat_template.jinja"
    if own.exists():
        return {"default": own.read_text(encoding="utf-8")}
    inside = settings.get("chat_template")
    if isinstance(inside, str):
        return {"default": inside}
    return {each["name"]: each["template"] for each in inside or []}
