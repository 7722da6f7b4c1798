"""Prompts to ask an engine about, and what a different answer means.

A tokenizer that differs from the engine's in one token makes every prefix behind it unknown, without any error. So a
few prompts of each kind, with what usually goes wrong in them, are tokenised by both and compared id by id.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Protocol

from vicinal.tokenizer.kinds import PromptKind

_TEXT = (
    "Schrödinger's naïve café – 5 €, “quotes”\tand tabs,  two spaces;\r\n\n"
    "调度器决定哪块显卡服务请求。缓存命中率:98%。🙂👩‍🚀 x==1 && y!=2 0xFF 1234567890 don't I'LL\n    indented  "
)
_SPECIAL_WORDS = "<s>a</s> <|endoftext|> <|im_start|>user<|im_end|> [INST] <unk>"
_WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": 'The weather in a city: 天气 "now" <b>&</b>',
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
            "required": ["city"],
        },
    },
}
# As clients send them too: keys in another order, and no description.
_CLOCK = {"function": {"parameters": {"type": "object", "properties": {}}, "name": "clock"}, "type": "function"}
_CALL = {"type": "function", "id": "c1", "function": {"name": "weather", "arguments": '{"days": 2, "city": "北京"}'}}


class Tokenizer(Protocol):
    """What is compared with the engine's."""

    def encode(self, text: str) -> list[int]: ...

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        arguments: Mapping[str, Any] | None = None,
    ) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Probe:
    """One prompt: a text, or a chat. `fields` are those of a request body that make the prompt."""

    name: str
    kind: PromptKind
    fields: Mapping[str, Any] = field(default_factory=dict)

    def ids(self, tokenizer: Tokenizer) -> list[int]:
        """Our token ids. Raises ChatError when the model's template does not take such a chat."""
        if self.kind is PromptKind.PLAIN:
            return tokenizer.encode(self.fields["prompt"])
        return tokenizer.encode_chat(self.fields["messages"], self.fields.get("tools"))


def _chat(*turns: str, system: str = "") -> list[dict[str, Any]]:
    messages = [{"role": "system", "content": system}] if system else []
    roles = ("user", "assistant")
    return [*messages, *({"role": roles[at % 2], "content": turn} for at, turn in enumerate(turns))]


PROBES = (
    Probe("text", PromptKind.PLAIN, {"prompt": _TEXT}),
    Probe("special words", PromptKind.PLAIN, {"prompt": _SPECIAL_WORDS}),
    Probe("one turn", PromptKind.CHAT, {"messages": _chat(_TEXT)}),
    Probe("several turns", PromptKind.CHAT, {"messages": _chat(" Hi ", "Hello!\n", "再说一遍", "好的。", "Thanks")}),
    Probe("system prompt", PromptKind.CHAT, {"messages": _chat("Hi", system="You are terse.\nAnswer in 中文.")}),
    Probe("tools", PromptKind.TOOLS, {"messages": _chat("Weather in Zürich?"), "tools": [_WEATHER]}),
    Probe(
        "a call and its answer",
        PromptKind.TOOLS,
        {
            "messages": [
                *_chat("Weather?"),
                {"role": "assistant", "content": None, "tool_calls": [_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": '{"sky": "晴"}'},
            ],
            "tools": [_WEATHER],
        },
    ),
    Probe(
        "tools and system prompt",
        PromptKind.TOOLS,
        {"messages": _chat("What time is it?", system="Use tools."), "tools": [_WEATHER, _CLOCK]},
    ),
)


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the engine's ids leave ours, and what usually makes that. `position` counts from 0."""

    probe: Probe
    position: int
    ours: int | None
    theirs: int | None
    ours_count: int
    theirs_count: int
    likely: str

    def words(self) -> str:
        return (
            f"{self.probe.kind.value} ({self.probe.name}): token {self.position} is {_id(self.theirs)} there and "
            f"{_id(self.ours)} here ({self.theirs_count} and {self.ours_count} tokens). Likely: {self.likely}"
        )


def difference(probe: Probe, ours: Sequence[int], theirs: Sequence[int]) -> Difference | None:
    """None when the engine agrees on every id."""
    position = next((at for at, pair in enumerate(zip_longest(ours, theirs)) if pair[0] != pair[1]), None)
    if position is None:
        return None
    return Difference(
        probe,
        position,
        ours[position] if position < len(ours) else None,
        theirs[position] if position < len(theirs) else None,
        len(ours),
        len(theirs),
        _likely(probe.kind, position, ours, theirs),
    )


def _likely(kind: PromptKind, position: int, ours: Sequence[int], theirs: Sequence[int]) -> str:
    if list(theirs[1:]) == list(ours):
        return "the engine puts one token more in front, as a BOS" + (
            " that the chat template has put there already" if theirs[:1] == theirs[1:2] else ""
        )
    if list(ours[1:]) == list(theirs):
        return "one token too many in front here, as a BOS that the engine does not add"
    if list(theirs[:-1]) == list(ours):
        return "the engine adds one token at the end, as an EOS"
    if kind is PromptKind.PLAIN:
        return "another vocabulary or other special tokens: model.tokenizer is not the engine's tokenizer"
    if kind is PromptKind.TOOLS:
        return "tools are rendered differently: another chat template, or an engine that leaves them out"
    if position == 0:
        return "another chat template, or another vocabulary"
    return "another chat template (the engine's --chat-template, or its defaults for the template's arguments)"


def _id(token: int | None) -> str:
    return "missing" if token is None else str(token)
