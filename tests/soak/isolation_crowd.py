"""The others of `tests.soak.isolation`: one who does not read, and streams of bodies of up to 16 MiB. A nice process.

    python -m tests.soak.isolation_crowd PORT KIND[,KIND]...

Each word is a stream: one connection with bodies of its kinds in turn. It runs until its standard input closes, then
prints per stream how many bodies got which status.
"""

import asyncio
import json
import os
import sys
from collections import Counter
from itertools import cycle

import msgspec
import uvloop

MIB = 1024 * 1024
_TEXT = "The cache of a prefix belongs to whoever computed it, and 缓存命中率 is what is left of it. "


def _text(size: int) -> str:
    return _TEXT * (size // len(_TEXT.encode()))


def bodies() -> dict[str, tuple[bytes, bytes]]:
    """Per kind a path and a body. `text` and `ids` fit no model, `fits` does, `image` cannot be tokenised here."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBO" * (4 * MIB - 100)}}
    content = [{"type": "text", "text": "What is this?"}, image]
    told = {
        "text": {"prompt": _text(16 * MIB - 300)},
        "ids": {"prompt": [n % 1000 for n in range(4 * MIB)]},
        "fits": {"prompt": _text(600 * 1024)},
        "image": {"messages": [{"role": "user", "content": content}]},
    }
    made = {}
    for kind, fields in told.items():
        raw = msgspec.json.encode({"model": "m", "stream": True, "max_tokens": 20, **fields})
        assert len(raw) <= 16 * MIB, (kind, len(raw))
        made[kind] = (b"/v1/chat/completions" if "messages" in fields else b"/v1/completions", raw)
    return made


async def _sends(port: int, told: list[tuple[bytes, bytes]], statuses: Counter[str]) -> None:
    """One body after the other, on one connection while it lives."""
    turns = cycle(told)
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while True:
                path, body = next(turns)
                writer.write(b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (path, len(body)))
                for at in range(0, len(body), 256 * 1024):
                    writer.write(memoryview(body)[at : at + 256 * 1024])
                    await writer.drain()
                answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                statuses[answer.split()[1]] += 1
                if "content-length" in answer:
                    await reader.readexactly(int(answer.partition("content-length:")[2].split("\r\n")[0]))
                else:
                    await reader.readuntil(b"\r\n0\r\n\r\n")
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            statuses[type(error).__name__] += 1
        finally:
            writer.close()


async def _reads_nothing(port: int) -> None:
    """Asks for much and reads none of it."""
    body = b'{"model":"m","prompt":"much","stream":true,"max_tokens":4000}'
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\ntraceparent: flood\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % len(body) + body)
        await asyncio.sleep(20)
        writer.close()


async def main(port: int, kinds: list[str]) -> None:
    made = bodies()
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    tasks = [
        asyncio.ensure_future(_sends(port, [made[kind] for kind in stream.split(",")], counts[stream]))
        for stream in kinds
    ]
    tasks.append(asyncio.ensure_future(_reads_nothing(port)))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    os.nice(10)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main(int(sys.argv[1]), sys.argv[2:]))
