"""The body of a copy: the prompt of a request, and of the request nothing else."""

from vicinal.engines.splicing import field_names, spliced

_OF_THE_PROMPT = frozenset(
    {
        "model",
        "prompt",
        "messages",
        "tools",
        "documents",
        "chat_template",
        "chat_template_kwargs",
        "add_generation_prompt",
        "continue_final_message",
        "add_special_tokens",
        "reasoning_effort",
        "mm_processor_kwargs",
        "cache_salt",
    }
)
_ONE_TOKEN = {"max_tokens": b"1", "temperature": b"0", "ignore_eos": b"true"}


def prompt_body(body: bytes) -> tuple[bytes, bool]:
    """The prompt of `body` (a JSON object) as a request for exactly one token, and whether it is a chat.

    Raises ValueError (msgspec.DecodeError) when `body` is not a JSON object.
    """
    names = field_names(body)
    return spliced(body, _ONE_TOKEN, names - _OF_THE_PROMPT), "messages" in names
