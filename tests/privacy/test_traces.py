"""What logs have of an error: kinds and lines of code, of its causes too, and nothing of what it says."""

import asyncio
import logging

import pytest

from vicinal.cli.loop import run
from vicinal.gateway.traces import trace_of

SAID = "XYZZYPLUGH"


def fails() -> None:
    raise KeyError(SAID)


def test_kinds_and_lines_of_a_whole_chain() -> None:
    try:
        try:
            fails()
        except KeyError as cause:
            raise ValueError(SAID) from cause
    except ValueError as error:
        trace = trace_of(error)
    assert trace.index("builtins.KeyError") < trace.index("builtins.ValueError")
    assert "in fails" in trace
    assert SAID not in trace


def test_a_chain_that_bites_its_tail_ends() -> None:
    first, second = ValueError(SAID), ValueError(SAID)
    first.__cause__, second.__cause__ = second, first
    assert trace_of(first).count("builtins.ValueError") == 2


def test_what_nobody_handled_is_told_without_its_words(caplog: pytest.LogCaptureFixture) -> None:
    """The loop's own handler would show the arguments of a callback and the error's text."""

    def called_back(words: bytes) -> None:
        raise RuntimeError(words)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(called_back, SAID.encode())
        loop.call_exception_handler({"message": "something else is wrong"})
        await asyncio.sleep(0.01)

    run(main())
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert said[0] == "nobody handled this: something else is wrong"
    assert "builtins.RuntimeError" in said[1]
    assert "in called_back" in said[1]
    assert SAID not in caplog.text
