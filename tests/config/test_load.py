"""A wrong configuration is refused with the line, the key and what would be right; a right one is read as written."""

import pytest

from vicinal.config.load import load, parse
from vicinal.config.problems import ConfigError

MODEL = """\
[model]
name = "m"
profile = "p"
tokens_max = 4096
kv_bytes_per_token = 1024
"""
ENDPOINT = """\
[[endpoint]]
id = "d1"
url = "http://127.0.0.1:9001"
role = "decode"
kv_blocks = 100
"""


def problems(text: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        parse(text, "v.toml", environ or {})
    return str(refused.value).splitlines()


def test_the_least_configuration_is_enough_and_the_rest_is_as_documented() -> None:
    config = parse(MODEL + ENDPOINT, "v.toml", {})
    assert (config.server.host, config.server.port, config.server.admin_port) == ("127.0.0.1", 8000, 8001)
    assert config.server.body_bytes_max == 16 * 1024 * 1024
    assert config.server.trust_tenant_header is False
    assert (config.scheduler.policy, config.scheduler.attempts_max, config.model.block_tokens) == ("cost", 3, 16)
    assert config.endpoint[0].kv_blocks == 100


def test_an_unknown_key_names_its_line_and_the_nearest_known_key() -> None:
    text = "# a comment\n\n[server]\nhost = '0.0.0.0'\n\nprot = 9\n" + MODEL + ENDPOINT
    assert problems(text) == ['v.toml:6: server.prot: unknown key; did you mean "port"?']


def test_an_unknown_section_and_an_unknown_key_of_an_endpoint_are_found_too() -> None:
    text = MODEL + ENDPOINT + "kv_block = 3\n" + ENDPOINT.replace("d1", "d2").replace("9001", "9002") + "[schedular]\n"
    assert problems(text) == [
        'v.toml:11: endpoint[0].kv_block: unknown key; did you mean "kv_blocks"?',
        'v.toml:17: schedular: unknown section; did you mean "scheduler"?',
    ]


def test_a_word_like_no_key_gets_the_list_of_keys() -> None:
    (problem,) = problems(MODEL + ENDPOINT + "[record]\nzzz = 1\n")
    assert problem == "v.toml:12: record.zzz: unknown key; known here: directory, file_mbytes_max, files_max"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('port = "8000"', "server.port: expected integer, ≥ 0, ≤ 65535, not '8000'"),
        ("port = 70000", "server.port: expected integer, ≥ 0, ≤ 65535, not 70000"),
        ("port = true", "server.port: expected integer, ≥ 0, ≤ 65535, not True"),
        ("header_timeout_s = nan", "server.header_timeout_s: expected number, > 0, not nan"),
        ("header_timeout_s = inf", "server.header_timeout_s: expected a finite number, not inf"),
        ("trust_tenant_header = 1", "server.trust_tenant_header: expected true or false, not 1"),
        ('host = ""', "server.host: expected text, not empty, not ''"),
    ],
)
def test_a_wrong_value_says_what_was_expected(line: str, expected: str) -> None:
    assert problems(f"[server]\n{line}\n{MODEL}{ENDPOINT}") == [f"v.toml:2: {expected}"]


def test_values_of_endpoints_are_checked_with_their_own_lines() -> None:
    bad = ENDPOINT.replace('"decode"', '"decoder"').replace("http://127.0.0.1:9001", "127.0.0.1:9001")
    assert problems(MODEL + bad) == [
        "v.toml:8: endpoint[0].url: expected text (Address of its API: `http://host:port`, or https.), "
        "not '127.0.0.1:9001'",
        'v.toml:9: endpoint[0].role: expected "prefill" or "decode" or "both", not \'decoder\'',
    ]


def test_tables_and_arrays_in_the_wrong_shape_are_named() -> None:
    assert problems("server = 3\n" + MODEL) == ["v.toml:1: server: expected a table, got int"]
    assert problems(MODEL + "[endpoint]\nid = 'a'\n") == [
        "v.toml:6: endpoint: expected an array of tables, [[endpoint]], got dict"
    ]
    uplinks = "[network.uplinks_gbytes_per_s]\nr1 = 'fast'\n"
    assert problems(MODEL + ENDPOINT + uplinks) == [
        "v.toml:11: network.uplinks_gbytes_per_s: expected table of name = number, > 0, not {'r1': 'fast'}"
    ]


def test_missing_keys_and_sections_say_what_they_are_for() -> None:
    assert problems(ENDPOINT) == ["v.toml: model: is missing."]
    assert problems(MODEL.replace("tokens_max = 4096\n", "") + ENDPOINT) == [
        "v.toml:1: model.tokens_max: is missing. Longest prompt and answer together (vLLM: `max_model_len`)."
    ]


def test_broken_toml_and_files_that_cannot_be_read(tmp_path) -> None:
    assert problems("a = [1,\n") == ["v.toml: not valid TOML: Invalid value (at end of document)"]
    missing = tmp_path / "none.toml"
    with pytest.raises(ConfigError, match=r"none\.toml: No such file or directory"):
        load(missing, {})
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(ConfigError, match=r"latin\.toml: byte 2 is not UTF-8"):
        load(tmp_path / "latin.toml", {})
    good = tmp_path / "good.toml"
    good.write_text(MODEL + ENDPOINT, encoding="utf-8")
    assert load(good, {}) == parse(MODEL + ENDPOINT, "elsewhere", {})


def test_the_environment_wins_over_the_file() -> None:
    environ = {
        "VICINAL_SERVER__PORT": "9000",
        "VICINAL_SERVER__TRUST_TENANT_HEADER": "true",
        "VICINAL_EMULATOR__SPEED": "2.5",
        "VICINAL_MODEL__NAME": "123",
        "VICINAL_ACCESS__TRUSTED_PEERS": "10.0.0.1, ::1",
        "VICINAL_TRACES": "/somewhere",
        "HOME": "/root",
    }
    config = parse("[server]\nport = 8000\n" + MODEL + ENDPOINT, "v.toml", environ)
    assert (config.server.port, config.server.trust_tenant_header) == (9000, True)
    assert (config.emulator.speed, config.model.name) == (2.5, "123")
    assert config.access.trusted_peers == ("10.0.0.1", "::1")
    none = parse(MODEL + ENDPOINT, "v.toml", {"VICINAL_ACCESS__TRUSTED_PEERS": ""})
    assert none.access.trusted_peers == ()


def test_variables_that_are_wrong_are_named_themselves() -> None:
    environ = {
        "VICINAL_SERVER_PORT": "1",
        "VICINAL_SERVER__PROT": "1",
        "VICINAL_SERVER__ADMIN_PORT": "many",
        "VICINAL_EMULATOR__SPEED": "nan",
    }
    assert problems(MODEL + ENDPOINT, environ) == [
        "VICINAL_EMULATOR__SPEED: emulator.speed: expected number, > 0, not 'nan'",
        "VICINAL_SERVER_PORT: unknown variable; did you mean VICINAL_SERVER__PORT?",
        "VICINAL_SERVER__ADMIN_PORT: server.admin_port: expected integer, ≥ 0, ≤ 65535, not 'many'",
        'VICINAL_SERVER__PROT: unknown variable; did you mean "VICINAL_SERVER__PORT"?',
    ]


def test_a_clash_that_a_variable_brings_about_is_put_down_to_the_variable() -> None:
    assert problems(MODEL + ENDPOINT, {"VICINAL_SERVER__ADMIN_PORT": "8000"}) == [
        "VICINAL_SERVER__ADMIN_PORT: server.admin_port: 127.0.0.1:8000 is taken by server.port; choose another port"
    ]
