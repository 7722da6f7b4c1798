"""OpenAI messages as chat templates expect them, which is how vLLM hands them over (entrypoints/chat_utils.py).

- A content of parts becomes one text with a line break between parts. A template that walks over parts by itself
  ("openai" form) gets parts instead, and a plain text becomes one part.
- A content of null is an empty text. The arguments of an assistant's tool call are an object, not JSON text; where they
  are no JSON object they are an empty one, because a conversation must be able to go on after a model's bad call.
- A tool, and a call of one, has vLLM's fields in vLLM's order, because templates write them out as JSON: that is what
  its request model makes of them. What a tool does not say is null, what a call does not say is left out.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vicinal.tokenizer.errors import ChatError


def normalised(messages: Sequence[Mapping[str, Any]], *, as_parts: bool) -> list[dict[str, Any]]:
    """Copies of `messages` for a template that wants parts or text. Raises ChatError naming the field at fault."""
    return [_message(message, f"messages[{at}]", as_parts) for at, message in enumerate(messages)]


def normalised_tools(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Copies of `tools` as a template gets them. Raises ChatError naming the tool at fault."""
    return [_tool(tool, f"tools[{at}]") for at, tool in enumerate(tools)]


def _tool(tool: Mapping[str, Any], where: str) -> dict[str, Any]:
    function = tool.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ChatError(f"{where}.function must be an object with a name", f"{where}.function")
    copy = {name: function.get(name) for name in ("name", "description", "parameters")}
    copy |= {name: function[name] for name in ("strict", "defer_loading") if function.get(name) is not None}
    deferred = tool.get("defer_loading")
    if deferred is None:
        return {"type": "function", "function": copy}
    copy.setdefault("defer_loading", deferred)
    return {"type": "function", "function": copy, "defer_loading": deferred}


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
    elif "tool_calls" in copy:
        del copy["tool_calls"]
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
        told = {"arguments": _arguments(function.get("arguments")), "name": function.get("name")}
        known = {"id": call.get("id"), "function": told, "type": call.get("type")}
        copies.append({name: value for name, value in known.items() if value is not None})
    return copies


def _arguments(given: Any) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}
