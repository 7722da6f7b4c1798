"""What the README tells a newcomer to type works as far as a test can see."""

import ast
import re

import pytest

from tests.docs.documents import fenced, read
from vicinal.cli.main import app
from vicinal.config.cluster import endpoints
from vicinal.config.load import load, parse
from vicinal.topology.graph import Level
from vicinal.topology.tree import shared_level
from vicinal.wiring.core import check

READMES = ("README.md", "README.zh-CN.md")


@pytest.mark.parametrize("name", READMES)
def test_the_fleet_of_the_readme_is_accepted(name: str, tmp_path) -> None:
    (toml,) = fenced(read(name), "toml")
    (tmp_path / "fleet.toml").write_text(toml, encoding="utf-8")
    config = load(tmp_path / "fleet.toml", {})
    check(config)
    prefill, decode = endpoints(config)
    assert prefill.role.prefills
    assert decode.role.decodes
    assert shared_level(prefill, decode) is Level.LEAF


@pytest.mark.parametrize("name", READMES)
def test_the_client_of_the_readme_is_python_and_asks_for_the_default_model(name: str) -> None:
    from vicinal.config.default import default_cluster

    (code,) = fenced(read(name), "python")
    ast.parse(code)
    config = default_cluster()
    assert f'model="{config.model.name}"' in code
    assert f"http://{config.server.host}:{config.server.port}/v1" in code


def test_commands_that_documents_name_exist() -> None:
    for name in (*READMES, "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/explain.md", "docs/emulator.md"):
        for command in re.findall(r"(?:`|bin/|^    )vicinal ([a-z]+)", read(name), re.MULTILINE):
            assert command in app, f"{name}: vicinal {command}"


@pytest.mark.parametrize("command", ["up", "serve", "explain", "simulate", "compare", "scenario"])
def test_options_that_documents_name_exist(command: str) -> None:
    help_text = " ".join(str(argument.names) for argument in app[command].assemble_argument_collection())
    for name in (*READMES, "docs/explain.md", "docs/workloads.md", "docs/emulator.md", "docs/simulator.md"):
        for line in re.findall(rf"vicinal {command} [^\n`]*", read(name)):
            for option in re.findall(r"--[a-z]+(?:-[a-z]+)*", line):
                assert f"'{option}'" in help_text, f"{name}: {line}"


def test_make_targets_that_documents_name_exist() -> None:
    makefile = read("Makefile")
    for name in (*READMES, "CONTRIBUTING.md"):
        for target in re.findall(r"(?:`|^    )make ([a-z]+)", read(name), re.MULTILINE):
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), f"{name}: make {target}"


def test_the_place_for_measured_figures_is_kept() -> None:
    for name in READMES:
        assert "## Measured\n" in read(name)


def test_limits_in_http_are_the_configured_defaults() -> None:
    from vicinal.config.schema import Server

    text, server = read("docs/http.md"), Server()
    assert f"{server.body_bytes_max >> 20} MiB | a request's body" in text
    assert f"{server.header_bytes_max >> 10} KiB | request line" in text
    assert f"{server.header_timeout_s:.0f} s, {server.body_timeout_s:.0f} s" in text
    assert f"{server.idle_timeout_s:.0f} s | a client connection" in text
    assert f"{server.connect_timeout_s:.0f} s | a connection to an engine" in text
    assert f"{server.engine_silence_s:.0f} s | an engine that owes bytes" in text


def test_an_unknown_key_is_refused_as_the_documents_say() -> None:
    (toml,) = fenced(read("README.md"), "toml")
    with pytest.raises(ValueError, match="did you mean"):
        parse(toml.replace("tokens_max", "token_max"), "fleet.toml", {})
