"""What is wrong with a file of [tls] is told at the start: the file, the setting, the cure."""

import pytest
from msgspec.structs import replace

from vicinal.config.checks import findings
from vicinal.config.default import default_cluster
from vicinal.config.problems import ConfigError, key_text
from vicinal.config.tls import Tls
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.tls import engine_tls, server_tls, tls_files


def problem(tls: Tls) -> str:
    config = replace(default_cluster(), tls=tls)
    with pytest.raises(ConfigError) as error:
        (server_tls(config), engine_tls(config))
    return str(error.value)


def test_files_that_are_not_there(certified) -> None:
    absent = certified.folder / "absent.pem"
    assert problem(replace(certified.tls(), key=str(absent))) == f"{absent}: tls.certificate: No such file or directory"
    assert problem(Tls(engine_ca=str(absent))) == f"{absent}: tls.engine_ca: No such file or directory"
    assert problem(certified.tls(client_ca=absent)) == f"{absent}: tls.client_ca: No such file or directory"


def test_a_key_of_another_certificate(certified) -> None:
    _, other = certified.server("other", "x.example")
    said = problem(replace(certified.tls(), key=str(other)))
    assert said == (
        f"{other}: tls.certificate: is no key of the certificate in {certified.certificate}; give the two that belong "
        "together"
    )


def test_what_is_no_pem(certified) -> None:
    junk = certified.folder / "junk.pem"
    junk.write_text("no certificate")
    said = problem(replace(certified.tls(), certificate=str(junk)))
    assert said.startswith(
        f"{junk}: tls.certificate: expected a certificate here, and its private key in {certified.key}"
    )
    assert problem(Tls(engine_ca=str(junk))).startswith(f"{junk}: tls.engine_ca: expected PEM certificates of CAs")
    junk.write_text("")
    assert problem(Tls(engine_ca=str(junk))).startswith(f"{junk}: tls.engine_ca: expected PEM certificates of CAs")


def test_a_key_with_a_password_asks_nobody(certified) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certified.key.read_bytes(), None)
    locked = certified.folder / "locked.pem"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    said = problem(replace(certified.tls(), key=str(locked)))
    assert said.startswith(f"{locked}: tls.certificate: the private key has a password")


def test_without_files_there_is_no_context(certified) -> None:
    config = default_cluster()
    assert server_tls(config) is None
    assert engine_tls(config) is None
    whole = replace(config, tls=certified.tls(engine_ca=certified.ca_file))
    assert tls_files(whole) == (certified.certificate, certified.key)


@pytest.mark.parametrize(
    ("tls", "key"),
    [
        (Tls(certificate="a"), "tls.certificate"),
        (Tls(key="a"), "tls.key"),
        (Tls(engine_certificate="a"), "tls.engine_certificate"),
        (Tls(engine_key="a"), "tls.engine_key"),
        (Tls(client_ca="a"), "tls.client_ca"),
    ],
)
def test_halves_mean_nothing(tls: Tls, key: str) -> None:
    ((where, words),) = findings(replace(default_cluster(), tls=tls))
    assert key_text(where) == key
    assert "give" in words


def test_emulated_engines_have_no_tls() -> None:
    whole = default_cluster()
    entry = replace(whole.endpoint[0], url=whole.endpoint[0].url.replace("http:", "https:"))
    with pytest.raises(ValueError, match="emulated engines speak http, not https"):
        make_fleet(replace(whole, endpoint=(entry, *whole.endpoint[1:])), None)
