"""Files of keys: what they say, and errors that name the line and never quote a key."""

import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from vicinal.config.default import default_cluster
from vicinal.config.keys import admin_keys, client_keys
from vicinal.config.problems import ConfigError
from vicinal.domain.request import BATCH, INTERACTIVE
from vicinal.gateway.keys import hash_of
from vicinal.wiring.access import client_ring, engine_key, forwarding

NAME = "3f9a1c0e77b2"
KEY = f"vk-{NAME}-{'0123456789abcdef' * 4}"  # in the names of tests, which all workers must find the same
TABLE = f'[[key]]\nid = "{NAME}"\nsha256 = "{hash_of(KEY)}"\n'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.toml"


def test_a_whole_file(file: Path) -> None:
    file.write_text(
        TABLE + 'tenant = "acme"\nname = "laptop"\nmodels = ["a", "b"]\nservice = "batch"\nexpires = 2027-01-31\n'
    )
    (entry,) = client_keys(file, ["interactive", "batch"])
    assert (entry.id, entry.tenant, entry.models, entry.service) == (NAME, "acme", ("a", "b"), "batch")
    assert entry.expires == datetime.date(2027, 1, 31)
    config = default_cluster()
    ring = client_ring(replace(config, access=replace(config.access, keys_file=str(file))))
    assert ring is not None
    caller = ring.caller(f"Bearer {KEY}".encode())
    assert (caller.tenant, caller.models, caller.service) == ("acme", {"a", "b"}, BATCH)


def test_defaults_and_no_file(file: Path) -> None:
    file.write_text(TABLE + 'tenant = "acme"\n')
    config = default_cluster()
    assert client_ring(config) is None
    ring = client_ring(replace(config, access=replace(config.access, keys_file=str(file))))
    assert ring is not None
    caller = ring.caller(f"Bearer {KEY}".encode())
    assert (caller.tenant, caller.models, caller.service) == ("acme", None, INTERACTIVE)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (TABLE, 1, "key[0].tenant: is missing"),
        (TABLE + "tenant = 1\n", 4, "key[0].tenant: expected text, not empty, not 1"),
        (TABLE + 'tenant = "a"\nmodel = ["x"]\n', 5, 'unknown key; did you mean "models"?'),
        (TABLE + 'tenant = "a"\nservice = "bach"\n', 5, 'no class of service is called "bach"; did you mean "batch"?'),
        (TABLE + 'tenant = "a"\nexpires = "soon"\n', 5, "key[0].expires: expected date, not 'soon'"),
        ((TABLE + 'tenant = "a"\n') * 2, 6, f'key[1].id: "{NAME}" is key[0] already'),
        (TABLE.replace(hash_of(KEY), KEY) + 'tenant = "a"\n', 3, "key[0].sha256: expected text (SHA-256"),
        (TABLE.replace(f'"{NAME}"', f'"{KEY}"') + 'tenant = "a"\n', 2, "key[0].id: expected text (12 hexadecimal"),
        (f'key = "{KEY}"\n', 1, "expected an array of tables"),
        (f"{KEY}\n", None, "not valid TOML"),
    ],
)
def test_what_is_wrong_is_told_with_its_line_and_without_the_key(
    file: Path, text: str, line: int | None, words: str
) -> None:
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        client_keys(file, ["interactive", "batch"])
    assert words in str(error.value)
    assert str(error.value).startswith(f"{file}:{line}: " if line else f"{file}: ")
    assert KEY[16:] not in str(error.value)


def test_admin_keys_have_no_tenant(file: Path) -> None:
    file.write_text(TABLE)
    assert [entry.id for entry in admin_keys(file)] == [NAME]
    file.write_text(TABLE + 'tenant = "a"\n')
    with pytest.raises(ConfigError, match=r"keys\.toml:4: key\[0\]\.tenant: unknown key"):
        admin_keys(file)


def test_a_file_that_is_not_there(file: Path) -> None:
    with pytest.raises(ConfigError, match=r"keys\.toml: No such file"):
        admin_keys(file)


@pytest.mark.parametrize("text", ["", "\n", "two words", "tab\there", "snow\u2603man", "x" * 5000])
def test_a_file_without_one_engine_key_is_refused_and_not_quoted(file: Path, text: str) -> None:
    file.write_text(text)
    config = default_cluster()
    with pytest.raises(ConfigError) as error:
        engine_key(replace(config, access=replace(config.access, engine_key_file=str(file))))
    assert str(error.value).startswith(f"{file}: ")
    assert not text.strip() or text not in str(error.value)


def test_engines_get_their_own_key_or_what_a_client_sent_where_none_is_asked_for(file: Path) -> None:
    config = default_cluster()
    headers = {b"authorization": b"Bearer c", b"traceparent": b"t", b"cookie": b"x"}
    assert forwarding(config).lines(headers) == b"traceparent: t\r\nauthorization: Bearer c\r\n"
    assert forwarding(config).headers() == {}
    file.write_text("engine-secret\n")
    engines = replace(config, access=replace(config.access, engine_key_file=str(file)))
    assert forwarding(engines).lines(headers) == b"traceparent: t\r\nauthorization: Bearer engine-secret\r\n"
    assert forwarding(engines).headers() == {"Authorization": "Bearer engine-secret"}
    keyed = replace(config, access=replace(config.access, keys_file="k.toml"))
    assert forwarding(keyed).lines(headers) == b"traceparent: t\r\n"
