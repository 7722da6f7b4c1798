"""TLS towards clients, operators and engines, on real sockets."""

import asyncio
import ssl

import aiohttp
import pytest
from msgspec.structs import replace

from vicinal.config.access import Access


def asked(live, **fields):
    return {"model": live.config.model.name, "prompt": [1, 2, 3]} | fields


@pytest.mark.mission("B10")
async def test_requests_scrapes_and_operators_go_by_tls(certified, kit, tmp_path) -> None:
    (tmp_path / "engine-key").write_text("e-secret")
    engine = kit.Engine()
    async with engine.running(certified.engine("127.0.0.1")):
        config = kit.configured(
            certified,
            certified.tls(engine_ca=certified.ca_file),
            engine.url,
            Access(engine_key_file=str(tmp_path / "engine-key")),
        )
        async with kit.gateway(config) as live, kit.asking(certified.client()) as http:
            assert live.api_url.startswith("https://")
            await kit.until(lambda: not live.unready())
            async with http.post(f"{live.api_url}/completions", json=asked(live)) as answer:
                assert (answer.status, (await answer.json())["choices"]) == (200, [{"text": "Hi"}])
            async with http.post(f"{live.api_url}/completions", json=asked(live, stream=True)) as answer:
                assert (answer.status, (await answer.read()).count(b"data: ")) == (200, engine.chunks + 1)
            async with http.get(f"{live.admin_url}/metrics") as answer:
                assert b"vicinal_requests_total" in await answer.read()
    paths = {path for path, _ in engine.seen}
    assert paths >= {"/metrics", "/tokenize", "/v1/completions"}
    assert {key for _, key in engine.seen} == {"Bearer e-secret"}


async def test_an_engine_that_cannot_prove_its_name_gets_nothing(certified, kit, caplog) -> None:
    engine = kit.Engine()
    for host, believes, words in (
        ("other.example", True, "certificate is not valid for '127.0.0.1'"),
        ("127.0.0.1", False, "unable to get local issuer certificate"),
    ):
        async with engine.running(certified.engine(host)):
            tls = certified.tls(engine_ca=certified.ca_file) if believes else certified.tls()
            async with kit.gateway(kit.configured(certified, tls, engine.url)) as live:
                await kit.until(lambda words=words: words in caplog.text)
                assert live.unready()
    assert engine.seen == []


async def test_the_data_path_itself_checks_the_name(certified, kit, tmp_path) -> None:
    """Scrapes and requests have clients of their own: here the scraped engine is not the one that is asked."""
    engine, impostor = kit.Engine(), kit.Engine()
    async with engine.running(certified.engine("127.0.0.1")), impostor.running(certified.engine("other.example")):
        config = kit.configured(certified, certified.tls(engine_ca=certified.ca_file), engine.url)
        async with kit.gateway(config) as live, kit.asking(certified.client()) as http:
            await kit.until(lambda: not live.unready())
            (endpoint,) = live.fleet
            import dataclasses

            live.gateway.replace_endpoints([dataclasses.replace(endpoint, url=impostor.url)])
            async with http.post(f"{live.api_url}/completions", json=asked(live)) as answer:
                assert answer.status in (502, 503)
    assert impostor.seen == []


async def test_an_engine_may_want_a_certificate_of_ours(certified, kit) -> None:
    engine = kit.Engine()
    context = certified.engine("127.0.0.1")
    context.load_verify_locations(certified.ca_file)
    context.verify_mode = ssl.CERT_REQUIRED
    certificate, key = certified.server("gateway", "gateway.example")
    async with engine.running(context):
        tls = certified.tls(engine_ca=certified.ca_file, engine_certificate=certificate, engine_key=key)
        async with (
            kit.gateway(kit.configured(certified, tls, engine.url)) as live,
            kit.asking(certified.client()) as http,
        ):
            await kit.until(lambda: not live.unready())
            async with http.post(f"{live.api_url}/completions", json=asked(live)) as answer:
                assert answer.status == 200


async def test_clients_without_a_certificate_are_not_let_in_where_one_is_wanted(certified, kit) -> None:
    config = kit.configured(certified, certified.tls(client_ca=certified.ca_file), "http://127.0.0.1:1")
    mine = certified.client(certified.server("mine", "me.example"))
    async with kit.gateway(config) as live:
        for url in (f"{live.api_url}/models", f"{live.admin_url}/metrics"):
            async with kit.asking(mine) as http, http.get(url) as answer:
                assert answer.status == 200
            async with kit.asking(certified.client()) as http:
                with pytest.raises((aiohttp.ClientError, ssl.SSLError)):
                    await http.get(url)


async def test_what_is_no_tls_and_what_says_nothing_is_dropped_and_others_are_served(certified, kit, caplog) -> None:
    config = kit.configured(certified, certified.tls(), "http://127.0.0.1:1", header_timeout_s=0.3)
    async with kit.gateway(config) as live, kit.asking(certified.client()) as http:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x40\x00\x01", b"\x00" * 70_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", config.server.port)
            writer.write(sent)
            async with asyncio.timeout(5.0):
                try:
                    while await reader.read(1000):
                        pass
                except ConnectionError:
                    pass
            writer.close()
        async with http.get(f"{live.api_url}/models") as answer:
            assert answer.status == 200
    assert [r for r in caplog.records if r.exc_info] == []


async def test_refusals_reach_clients_that_still_send(certified, kit) -> None:
    """Over TLS no side can be closed alone, so a refusal must not need that."""
    config = kit.configured(certified, certified.tls(), "http://127.0.0.1:1", body_bytes_max=1000)
    async with kit.gateway(config):
        reader, writer = await asyncio.open_connection("localhost", config.server.port, ssl=certified.client())
        writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * 5000)
        async with asyncio.timeout(5.0):
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
            writer.write(b"x" * 5000)
            try:
                while await reader.read(1000):
                    pass
            except (ConnectionError, ssl.SSLError):
                pass
        writer.close()


async def test_a_client_that_does_not_read_is_paused_and_all_bytes_come_when_it_does(certified, kit) -> None:
    engine = kit.Engine(chunks=4000)
    async with engine.running(certified.engine("127.0.0.1")):
        config = kit.configured(certified, certified.tls(engine_ca=certified.ca_file), engine.url)
        async with kit.gateway(config) as live, kit.asking(certified.client()) as http:
            await kit.until(lambda: not live.unready())
            async with http.post(f"{live.api_url}/completions", json=asked(live, stream=True)) as answer:
                await asyncio.sleep(0.3)
                assert (await answer.read()).count(b"data: ") == 4001


async def test_stopping_does_not_wait_for_clients_that_are_silent(certified, kit) -> None:
    config = kit.configured(certified, certified.tls(), "http://127.0.0.1:1")
    async with kit.gateway(config) as live:
        opened = [
            await asyncio.open_connection("localhost", config.server.port, ssl=certified.client()) for _ in range(3)
        ]
    assert live.gateway.refusals.counts["not_drained"] == 0
    for _, writer in opened:
        writer.close()


async def test_new_certificates_are_shown_without_a_restart_and_wrong_ones_are_not(certified, kit, caplog) -> None:
    config = kit.configured(certified, certified.tls(), "http://127.0.0.1:1")

    async def shown(port: int) -> str:
        _, writer = await asyncio.open_connection("localhost", port, ssl=certified.client())
        certificate = writer.get_extra_info("peercert")
        writer.close()
        return certificate["serialNumber"]

    async with kit.gateway(config) as live:
        ports = config.server.port, config.server.admin_port
        first = {await shown(port) for port in ports}
        certified.server("server", "127.0.0.1", "localhost")
        assert {await shown(port) for port in ports} == first
        await live.access.renew()
        second = {await shown(port) for port in ports}
        assert len(first) == len(second) == 1
        assert first != second
        certified.server("other", "127.0.0.1", "localhost")
        (certified.folder / "server-key.pem").write_bytes((certified.folder / "other-key.pem").read_bytes())
        await live.access.renew()
        assert {await shown(port) for port in ports} == second
        assert (
            f"{certified.key}: tls.certificate: is no key of the certificate in {certified.certificate}" in caplog.text
        )


def test_a_config_with_tls_has_https_in_its_addresses(certified, kit) -> None:
    config = kit.configured(certified, certified.tls(), "http://127.0.0.1:1")
    assert (config.tls.scheme, replace(config, tls=type(config.tls)()).tls.scheme) == ("https", "http")
