"""The soak in small: a real gateway over emulated engines, some seconds of everything, and nobody harmed."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.ports import free_row
from tests.soak.hostile import Options, soak
from tests.soak.processes import Sample, slopes_per_hour
from tests.up.test_up import PORTS
from vicinal.clock import ModelClock
from vicinal.config.default import default_cluster
from vicinal.wiring.engines import make_fleet
from vicinal.wiring.live import LiveSystem


@pytest.mark.parametrize("seed", [0, 1])
async def test_some_seconds_of_hostile_clients_harm_nobody(tmp_path: Path, capsys, seed: int) -> None:
    whole = default_cluster(free_row(PORTS), record_directory=str(tmp_path))
    config = replace(whole, endpoint=whole.endpoint[1:3], server=replace(whole.server, header_timeout_s=1.0))
    fleet = make_fleet(config, None)
    await fleet.start()
    live = LiveSystem(config, ModelClock())
    try:
        port = await live.start()
        options = Options(
            f"http://127.0.0.1:{port}",
            config.model.name,
            minutes=0.1,
            pids=(os.getpid(),),
            normal_per_s=15.0,
            hostile_per_s=40.0,
            questions=6,
            seed=seed,
            report_s=3.0,
            hold_s=3.0,
        )
        code = await soak(options)
        said = capsys.readouterr().out
        assert code == 0, said
        assert " 0 harmed" in said
        assert "surprise " not in said, said
        assert live.gateway.refusals.counts["head_too_slow"] > 0
        assert live.gateway.refusals.counts["cut_short"] > 0
        async with asyncio.timeout(20.0):  # nothing of all that is left behind
            while live.gateway.relay.under_way:
                await asyncio.sleep(0.01)
    finally:
        await live.stop()
        await fleet.stop()


def test_the_soak_notices_harm(tmp_path: Path) -> None:
    """A server that answers each tenth question with another one's answer."""

    async def run() -> int:
        asked = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal asked
            try:
                head = await reader.readuntil(b"\r\n\r\n")
                if b"Content-Length: " in head:
                    await reader.readexactly(int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0]))
                asked += 1
                text = "wrong" if asked > 4 and asked % 10 == 0 else "right"
                said = {"choices": [{"text": text, "finish_reason": "stop"}]}
                body = json.dumps(said | {"usage": {"prompt_tokens": 1, "completion_tokens": 1}}).encode()
                writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
                await writer.drain()
            except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        options = Options(
            f"http://127.0.0.1:{port}", "m", 0.02, normal_per_s=50.0, hostile_per_s=0.001, questions=2, hold_s=0.5
        )
        code = await soak(options)
        server.close()
        return code

    assert asyncio.run(run()) == 1


def test_slopes_are_those_of_the_second_half() -> None:
    samples = [Sample(60.0 * n, 100.0 + max(0, n - 50) * 2.0 + (n % 2), 10 + n % 2, 1) for n in range(100)]
    slopes = slopes_per_hour(samples)
    assert slopes is not None
    assert slopes[0] == pytest.approx(120.0, abs=0.5)
    assert abs(slopes[1]) < 0.1
    assert slopes_per_hour(samples[:6]) is None
