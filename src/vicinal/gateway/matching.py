"""By what prompts of a model are matched: by their tokens as long as they are the engines', else by their text.

It starts with trust. Whoever finds that an engine tokenises a kind of prompt differently says so here, and from the
next request on prompts of that kind have hashes of their text; when all agree again, of their tokens.
"""

from collections.abc import Mapping

from vicinal.domain.ids import ModelId
from vicinal.tokenizer.kinds import PromptKind


class Matching:
    """One per gateway. Reasons are for operators."""

    def __init__(self) -> None:
        self._by_text: dict[tuple[ModelId, PromptKind], str] = {}

    def by_tokens(self, model: ModelId, kind: PromptKind) -> bool:
        return (model, kind) not in self._by_text

    def use_text(self, model: ModelId, kind: PromptKind, reason: str) -> bool:
        """True when that is news."""
        news = self.by_tokens(model, kind)
        self._by_text[model, kind] = reason
        return news

    def use_tokens(self, model: ModelId, kind: PromptKind) -> bool:
        """True when that is news."""
        return self._by_text.pop((model, kind), None) is not None

    @property
    def by_text(self) -> Mapping[tuple[ModelId, PromptKind], str]:
        """What is matched by text, and why."""
        return self._by_text

    def replace(self, by_text: Mapping[tuple[ModelId, PromptKind], str]) -> None:
        """Exactly these are matched by text."""
        self._by_text = dict(by_text)

    def state(self, model: ModelId) -> Mapping[str, str]:
        """Per kind "tokens", or "text" with the reason."""
        return {
            kind.value: "tokens" if reason is None else f"text: {reason}"
            for kind in PromptKind
            for reason in [self._by_text.get((model, kind))]
        }
