"""The client as a process of its own: a spec in, progress on standard output, a result out; signals end it early."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from vicinal.replay.answer import Fate, Progress
from vicinal.replay.process import ConversationWorkload, Result, Spec, TraceWorkload, main

END = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
TRACE = '{"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1]}\n'


@asynccontextmanager
async def serving(handler: Callable[[web.Request], Awaitable[web.StreamResponse]]):
    application = web.Application()
    application.router.add_post("/v1/completions", handler)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def start(spec: Spec, folder: Path) -> asyncio.subprocess.Process:
    (folder / "spec.json").write_bytes(msgspec.json.encode(spec))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "vicinal.replay.process",
        str(folder / "spec.json"),
        str(folder / "result.json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def test_a_whole_run(tmp_path: Path) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=END, content_type="text/event-stream")

    (tmp_path / "trace.jsonl").write_text(TRACE * 3, encoding="utf-8")
    async with serving(handler) as url, asyncio.timeout(50):
        workload = TraceWorkload(str(tmp_path / "trace.jsonl"), limit=2)
        process = await start(Spec(url, "m", workload, (5, 1024), request_prefix="x"), tmp_path)
        said, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    result = msgspec.json.decode((tmp_path / "result.json").read_bytes(), type=Result)
    assert (result.complete, result.total) == (True, 2)
    assert [(a.request_id, a.fate, a.output_tokens) for a in result.answers] == [
        ("x-0", Fate.COMPLETED, 1),
        ("x-1", Fate.COMPLETED, 1),
    ]
    assert all(answer.sent_s >= result.origin_s - 2e-3 for answer in result.answers)
    last = msgspec.json.decode(said.splitlines()[-1], type=Progress)
    assert last == Progress(total=2, sent=2, completed=2, shed=0, failed=0)


async def test_a_signal_ends_it_early_with_what_there_is(tmp_path: Path) -> None:
    hanging = asyncio.Event()

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.headers["X-Request-Id"] == "replay-0":
            return web.Response(body=END, content_type="text/event-stream")
        hanging.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with serving(handler) as url, asyncio.timeout(50):
        spec = Spec(url, "m", ConversationWorkload(count=2), (5, 1024), speed=1000.0, progress_interval_s=0.0)
        process = await start(spec, tmp_path)
        await hanging.wait()
        assert process.stdout is not None
        while msgspec.json.decode(await process.stdout.readline(), type=Progress).completed < 1:
            pass
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (1, b"")
    result = msgspec.json.decode((tmp_path / "result.json").read_bytes(), type=Result)
    assert (result.complete, result.total) == (False, 2)
    assert [answer.request_id for answer in result.answers] == ["replay-0"]


def test_a_spec_or_trace_that_is_wrong_is_refused_with_its_reason(tmp_path: Path, capsys) -> None:
    spec, result = tmp_path / "spec.json", tmp_path / "result.json"
    (tmp_path / "bad.jsonl").write_text(TRACE + "{\n", encoding="utf-8")
    workload = TraceWorkload(str(tmp_path / "bad.jsonl"))
    for written, reason in (
        (b"{", "truncated"),
        (b'{"url": "u", "model": "m", "vocabulary": [0, 9], "workload": {"kind": "x"}}', "Invalid value 'x'"),
        (msgspec.json.encode(Spec("http://127.0.0.1:1", "m", workload, (5, 9))), "bad.jsonl:2: not valid JSON"),
    ):
        spec.write_bytes(written)
        assert main([str(spec), str(result)]) == 2
        assert reason in capsys.readouterr().err
    assert main([str(tmp_path / "none.json"), str(result)]) == 2
    assert not result.exists()
