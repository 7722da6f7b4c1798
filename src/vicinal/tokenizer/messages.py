"""OpenAI messages as chat templates expect them, which is how vLLM hands them over (entrypoints/chat_utils.py).

- A content of parts becomes one text with a line break between parts. A template that walks over parts by itself
  ("openai" form) gets parts instead, and a plain text becomes one part.
- A content of null is an empty text. The arguments of an assistant's tool call are an object, not JSON text.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vicinal.tokenizer.errors import ChatError


def normalised(messages: Sequence[Mapping[str, Any]], *, as_parts: bool) -> list[dict[str, Any]]:
    """Copies of `messages` for a template that wants parts or text. Raises ChatError naming the field at fault."""
    return [_message(message, f"messages[{at}]", as_parts) for at, message in enumerate(messages)]


def _message(message: Mapping[str, Any], where: str, as_parts: bool) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise ChatError(f"{where} must be an object", where)
    if not isinstance(message.get("role"), str):
        raise ChatError(f"{where}.role must be a text", f"{where}.role")
    texts = _texts(message.get("content"), f"{where}.content")
    copy = dict(message)
    copy["content"] = [{"type": "text", "text": text} for text in texts] if as_parts else "\n".join(texts)
    if calls := message.get("tool_calls"):
        copy["tool_calls"] = _tool_calls(calls, f"{where}.tool_calls")
    return copy


def _texts(content: Any, where: str) -> list[str]:
    if content is None:
        return []
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise ChatError(f"{where} must be a text or a list of parts", where)
    return [_text(part, f"{where}[{at}]") for at, part in enumerate(content)]


def _text(part: Any, where: str) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    raise ChatError(f"{where} is not a text part, and this model takes text only", where)


def _tool_calls(calls: Any, where: str) -> list[dict[str, Any]]:
    if not isinstance(calls, list):
        raise ChatError(f"{where} must be a list", where)
    copies = []
    for at, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            raise ChatError(f"{where}[{at}].function must be an object", f"{where}[{at}].function")
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            try:
                arguments = json.loads(arguments) if arguments else {}
            except ValueError:
                raise ChatError(
                    f"{where}[{at}].function.arguments is not JSON", f"{where}[{at}].function.arguments"
                ) from None
        copies.append({**call, "function": {**function, "arguments": arguments}})
    return copies
