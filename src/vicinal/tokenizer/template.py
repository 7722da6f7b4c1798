"""A model's chat template: Jinja in a sandbox, with what Hugging Face's `apply_chat_template` offers to templates.

That is: blocks trimmed, `raise_exception`, `strftime_now`, a `tojson` that keeps key order and does not escape for
HTML, `break` and `continue`, `{% generation %}` (marks the assistant's part; renders what is in it), and the special
tokens by name. A template is somebody else's program, so it runs where it can reach and change nothing.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from vicinal.tokenizer.errors import ChatError, TokenizerError
from vicinal.tokenizer.messages import normalised


class _RefusalError(Exception):
    """The template itself refuses the chat."""


class _Generation(Extension):
    tags = {"generation"}  # noqa: RUF012 (jinja2 reads it from the class)

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template. Rendering it changes nothing, so one serves all requests."""

    def __init__(self, source: str, special_tokens: Mapping[str, str], now: Callable[[], datetime]) -> None:
        """`special_tokens` are `bos_token`, `eos_token`, … as texts. Raises TokenizerError for a broken template."""
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise_exception
        environment.globals["strftime_now"] = lambda form: now().strftime(form)
        try:
            self.takes_parts = _walks_over_content(environment.parse(source))
            self._template = environment.from_string(source)
            self._template.globals = dict(self._template.globals)  # a ChainMap, which each rendering would walk slowly
        except jinja2.TemplateSyntaxError as error:
            raise TokenizerError(f"chat template, line {error.lineno}: {error.message}") from None
        self._special_tokens = dict(special_tokens)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        arguments: Mapping[str, Any],
    ) -> str:
        """The prompt's text. Raises ChatError when the messages, or the template on seeing them, are at fault."""
        try:
            return self._template.render(
                **{
                    **self._special_tokens,
                    **arguments,
                    "messages": normalised(messages, as_parts=self.takes_parts),
                    "tools": tools,
                    "documents": None,
                    "add_generation_prompt": add_generation_prompt,
                }
            )
        except _RefusalError as error:
            raise ChatError(str(error)) from None
        except ChatError:
            raise
        # A template runs arbitrary expressions on the client's values, so any error is possible and none is ours.
        except Exception as error:
            raise ChatError(f"the model's chat template cannot render these messages: {error}") from error


def _walks_over_content(tree: nodes.Template) -> bool:
    """True when the template loops over a message's content, so that it wants a list of parts."""
    for loop in tree.find_all(nodes.For):
        over = loop.iter
        while isinstance(over, nodes.Filter) and over.node is not None:
            over = over.node
        if isinstance(over, nodes.Getitem) and isinstance(over.arg, nodes.Const) and over.arg.value == "content":
            return True
        if isinstance(over, nodes.Getattr) and over.attr == "content":
            return True
    return False


def _raise_exception(message: str) -> NoReturn:
    raise _RefusalError(message)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
