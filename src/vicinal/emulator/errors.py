"""Error answers in vLLM's shape: {"error": {"message", "type", "param", "code"}}."""

from typing import Any

import msgspec


class HandOffError(Exception):
    """What a leg says of its hand-off cannot be followed. A real engine would answer 500, give wrong text, or die."""


class HolderGoneError(Exception):
    """The engine that a leg names does not answer."""


class ApiError(Exception):
    """Becomes an answer of that status, or the last event of a stream that has begun."""

    def __init__(self, status: int, message: str, kind: str, param: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param

    def body(self, flat: bool = False) -> bytes:
        """vLLM's shape, or, `flat`, SGLang's answers (its streams have vLLM's)."""
        error: dict[str, Any] = {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.status,
        }
        return msgspec.json.encode({"object": "error", **error} if flat else {"error": error})


def no_room() -> ApiError:
    """An SGLang engine that runs as half of a pair got a request that names no room."""
    text = "Invalid request: Disaggregated request received without bootstrap room id."
    return ApiError(400, text, "BadRequestError", "bootstrap_room")


def bad_value(message: str, param: str, value: object) -> ApiError:
    return ApiError(400, f"{message} (parameter={param}, value={value})", "BadRequestError", param)


def bad_json(error: msgspec.DecodeError) -> ApiError:
    """msgspec ends a complaint about a field with " - at `$.field`"; a body that is no JSON has no such place."""
    reason, _, place = str(error).partition(" - at `$")
    loc = "body" + place.rstrip("`")
    if place == "" and "missing required field" in reason:
        loc = "body." + reason.split("`")[1]
    kind = "value_error" if isinstance(error, msgspec.ValidationError) else "json_invalid"
    message = f"1 validation error:\n  {{'type': '{kind}', 'loc': '{loc}', 'msg': '{reason}'}}"
    return ApiError(400, message, "Bad Request", loc)


def unknown_model(name: str, known: str) -> ApiError:
    return ApiError(404, f"The model `{name}` does not exist. Valid aliases: {known}.", "NotFoundError", "model")


def too_long(prompt_tokens: int, output_tokens: int, tokens_max: int) -> ApiError:
    """`output_tokens` is what was asked for; the prompt alone may be too long already."""
    limit = f"This model's maximum context length is {tokens_max} tokens. However, "
    if prompt_tokens > tokens_max:
        text = (
            f"your prompt contains {prompt_tokens} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt."
        )
    else:
        text = (
            f"you requested {output_tokens} output tokens and your prompt contains {prompt_tokens} input tokens, for a "
            f"total of {prompt_tokens + output_tokens} tokens. Please reduce the length of the input prompt or the "
            "number of requested output tokens."
        )
    return bad_value(limit + text, "input_tokens", prompt_tokens)


def internal_error() -> ApiError:
    return ApiError(500, "Internal server error", "InternalServerError", None)
