"""`vicinal key` as an operator uses it: what it prints to store opens for what it prints to give away."""

import subprocess
import sys
from pathlib import Path

from vicinal.config.keys import admin_keys, client_keys
from vicinal.gateway.keys import hash_of


def made(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vicinal.cli.main", "key", *words], capture_output=True, text=True, check=False
    )


def test_lines_for_a_file_and_the_key_apart(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    told = [
        made("--tenant", "acme"),
        made("--tenant", 'a"b', "--name", "é", "--models", "x, y", "--service", "batch", "--expires", "2027-01-31"),
    ]
    file.write_text("".join(each.stdout for each in told), encoding="utf-8")
    first, second = client_keys(file, ["batch"])
    assert (first.tenant, first.models, first.expires) == ("acme", (), None)
    assert (second.tenant, second.name, second.models, second.service) == ('a"b', "é", ("x", "y"), "batch")
    assert str(second.expires) == "2027-01-31"
    for entry, each in zip((first, second), told, strict=True):
        secret = each.stderr.strip().rpartition(" ")[2]
        assert hash_of(secret) == entry.sha256
        assert secret not in each.stdout
    file.write_text(made("--admin").stdout)
    assert len(admin_keys(file)) == 1


def test_words_that_do_not_go_together() -> None:
    for words in ((), ("--admin", "--tenant", "a"), ("--admin", "--models", "m"), ("--tenant", "a", "--expires", "x")):
        told = made(*words)
        assert (told.returncode, told.stdout) == (2, "")
        assert told.stderr.startswith("vicinal: ")
