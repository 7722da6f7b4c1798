"""Chat templates get what Hugging Face and vLLM give them, and no way out of the sandbox."""

import json
from datetime import datetime
from pathlib import Path

import pytest

import vicinal
from vicinal.tokenizer.errors import ChatError, TokenizerError
from vicinal.tokenizer.template import ChatTemplate
from vicinal.tokenizer.tokenizer import Tokenizer

TINY = Path(vicinal.__file__).parent / "data" / "tiny-model"
HELLO = [{"role": "user", "content": "hello"}]


def render(source: str, messages=HELLO, tools=None, add_generation_prompt=True, **arguments) -> str:
    template = ChatTemplate(source, {"bos_token": "<s>"}, lambda: datetime(2026, 3, 9))
    return template.render(messages, tools, add_generation_prompt, arguments)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ eos_token }}|{{ documents }}|{{ tools }}", "<s>|None|None"),
        ("{% if add_generation_prompt %}go{% endif %}", "go"),
        ("{{ strftime_now('%d %b %Y') }}", "09 Mar 2026"),
        ("{{ {'b': '<&>', 'a': '中'} | tojson }}", '{"b": "<&>", "a": "中"}'),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        ("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "01"),
        ("{% generation %}{{ messages[0].content }}{% endgeneration %}", "hello"),
        ("{{ messages[0]['role'] }} {{ colour }}", "user red"),
    ],
)
def test_a_template_has_what_it_expects(source: str, expected: str) -> None:
    assert render(source, colour="red") == expected


def test_a_template_that_refuses_says_why() -> None:
    with pytest.raises(ChatError, match=r"^roles must alternate$"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ 1 / 0 }}",
        "{{ nothing.at.all }}",
    ],
)
def test_what_goes_wrong_inside_is_the_chats_fault_and_reaches_nothing(source: str) -> None:
    messages = [dict(HELLO[0])]
    with pytest.raises(ChatError, match="cannot render"):
        render(source, messages)
    assert messages == HELLO


def test_a_broken_template_is_found_when_it_is_loaded() -> None:
    with pytest.raises(TokenizerError, match="chat template, line 2"):
        render("ok\n{% if %}")


def test_parts_are_joined_for_a_template_that_wants_text() -> None:
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert render("{{ messages[0].content }}", parts) == "a\nb"
    assert render("[{{ messages[0].content }}]", [{"role": "assistant", "content": None}]) == "[]"


@pytest.mark.parametrize("over", ["m.content", "m['content']", "m['content'] | list"])
def test_text_becomes_a_part_for_a_template_that_walks_over_parts(over: str) -> None:
    source = "{% for m in messages %}{% for p in " + over + " %}<{{ p.text }}>{% endfor %}{% endfor %}"
    parts = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
    assert render(source) == "<hello>"
    assert render(source, parts) == "<a><b>"


def test_arguments_of_tool_calls_are_objects() -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"x": [1]}'}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert render("{{ messages[0].tool_calls[0].function.arguments.x[0] }}", messages) == "1"
    assert call["function"]["arguments"] == '{"x": [1]}'


@pytest.mark.parametrize("arguments", ["{", "[1]", "", None, 3, "[" * 100_000])
def test_a_models_bad_call_does_not_end_the_conversation(arguments: object) -> None:
    """As in vLLM 0.32: what is no JSON object is an empty one."""
    messages = [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}]
    assert render("{{ messages[0].tool_calls[0].function.arguments }}", messages) == "{}"
    assert render("{{ messages[0].tool_calls is defined }}", [{"role": "assistant", "tool_calls": []}]) == "False"


def test_a_call_is_told_in_the_order_of_vllms_request_model() -> None:
    """As seen from vLLM 0.32's /tokenize."""
    call = {"type": "function", "x": 1, "id": "1", "function": {"name": "f", "arguments": '{"b": 1, "a": 2}'}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    assert render("{{ messages[0].tool_calls | tojson }}", messages) == (
        '[{"id": "1", "function": {"arguments": {"b": 1, "a": 2}, "name": "f"}, "type": "function"}]'
    )


WEATHER = {"parameters": {"type": "object"}, "name": "weather", "strict": None, "x-own": 1}


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (
            {"function": WEATHER, "type": "function", "x-own": 1},
            '{"name": "weather", "description": null, "parameters": {"type": "object"}}',
        ),
        (
            {"type": "function", "function": {"name": "f", "strict": True, "description": "天气"}},
            '{"name": "f", "description": "天气", "parameters": null, "strict": true}',
        ),
    ],
)
def test_tools_are_told_as_vllm_writes_them(tool: dict, told: str) -> None:
    """Fields in the order of vLLM's request model, absent ones as null, unknown ones left out."""
    template = ChatTemplate("{{ tools[0] | tojson }}", {}, datetime.now)
    tokenizer = Tokenizer(None, {"default": template}, frozenset())  # type: ignore[arg-type]
    assert tokenizer.render_chat(HELLO, [tool]) == f'{{"type": "function", "function": {told}}}'


@pytest.mark.parametrize("tool", [{}, {"type": "function"}, {"function": {}}, {"function": {"name": 3}}])
def test_a_tool_without_a_name_is_the_clients_fault(tool: dict) -> None:
    tokenizer = Tokenizer(None, {"default": ChatTemplate("x", {}, datetime.now)}, frozenset())  # type: ignore[arg-type]
    with pytest.raises(ChatError) as refused:
        tokenizer.render_chat(HELLO, [tool])
    assert refused.value.param == "tools[0].function"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("hi", "messages[0]"),
        ({"content": "hi"}, "messages[0].role"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content[0]"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
    ],
)
def test_a_message_that_is_none_names_the_field(message, param: str) -> None:
    with pytest.raises(ChatError) as refused:
        render("{{ messages }}", [message])
    assert refused.value.param == param


def written(folder: Path, settings: dict, own: str | None = None) -> Tokenizer:
    (folder / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    if own is not None:
        (folder / "chat_template.jinja").write_text(own, encoding="utf-8")
    return Tokenizer.load(folder)


def test_where_templates_and_special_tokens_come_from(tmp_path: Path) -> None:
    named = [{"name": "default", "template": "plain {{ bos_token }}"}, {"name": "tool_use", "template": "tools"}]
    settings = {"bos_token": {"content": "<|bos|>", "special": True}, "chat_template": named}
    tokenizer = written(tmp_path, settings)
    assert tokenizer.render_chat(HELLO) == "plain <|bos|>"
    assert tokenizer.render_chat(HELLO, tools=[{"type": "function", "function": {"name": "f"}}]) == "tools"
    assert written(tmp_path, settings, own="of its own").render_chat(HELLO) == "of its own"


def test_a_model_without_a_template_takes_no_chat(tmp_path: Path) -> None:
    with pytest.raises(ChatError, match="no chat template"):
        written(tmp_path, {}).render_chat(HELLO)
