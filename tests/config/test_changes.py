"""What a running gateway can take over of an edited file."""

import pytest
from msgspec.structs import replace

from vicinal.config.changes import restart_keys, with_endpoints
from vicinal.config.default import default_cluster
from vicinal.config.problems import ConfigError

RUNNING = default_cluster()


def test_endpoints_are_taken_over_and_everything_else_is_named() -> None:
    new = replace(
        RUNNING,
        endpoint=RUNNING.endpoint[2:],
        model=replace(RUNNING.model, tokens_max=5),
        server=replace(RUNNING.server, port=1, host="0.0.0.0"),
    )
    assert with_endpoints(RUNNING, new, "f.toml") == replace(RUNNING, endpoint=RUNNING.endpoint[2:])
    assert sorted(restart_keys(RUNNING, new)) == ["model.tokens_max", "server.host", "server.port"]


def test_other_endpoints_alone_need_no_restart() -> None:
    assert list(restart_keys(RUNNING, replace(RUNNING, endpoint=RUNNING.endpoint[:4]))) == []


def test_services_are_named_as_a_whole() -> None:
    from vicinal.config.fleet import Service

    assert list(restart_keys(RUNNING, replace(RUNNING, service=(Service(name="x"),)))) == ["service"]


def test_endpoints_that_only_go_with_a_restarted_model_are_refused() -> None:
    """The file is right by itself: its model's block size is new too. But that does not change while it runs."""
    entries = tuple(replace(entry, block_tokens=32) for entry in RUNNING.endpoint[:1]) + RUNNING.endpoint[1:]
    new = replace(RUNNING, model=replace(RUNNING.model, block_tokens=32), endpoint=entries)
    with pytest.raises(ConfigError, match=r"f\.toml: endpoint\[\d\].*block_tokens"):
        with_endpoints(RUNNING, new, "f.toml")
