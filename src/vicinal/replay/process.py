"""The load client as a process of its own: `python -m vicinal.replay.process SPEC RESULT`.

Gateway, engines and clients share nothing in production, so `vicinal up` keeps them apart too: a client that shares
the gateway's loop would measure itself. SPEC is JSON (`Spec`), RESULT is written at the end (`Result`); while it runs,
one line of JSON (`Progress`) goes to standard output at most every `progress_interval_s`. SIGINT and SIGTERM end it
early: connections are closed and the answers so far are written.
"""

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from vicinal.replay.answer import Answer, Progress
from vicinal.replay.client import ReplayClient
from vicinal.workload.arrival import Arrival, requests
from vicinal.workload.conversation import conversation
from vicinal.workload.generators import generate, read_name
from vicinal.workload.prompt import Vocabulary
from vicinal.workload.returns import ONCE, Returns
from vicinal.workload.trace import Spread, TraceFormat, load_trace


class TraceWorkload(msgspec.Struct, frozen=True, tag_field="kind", tag="trace", forbid_unknown_fields=True):
    """A trace file; see `load_trace`."""

    path: str
    limit: int | None = None
    spread: Spread = Spread.AS_STAMPED
    rate: float = 1.0
    trace_format: TraceFormat | None = None
    block_tokens: int | None = None


class ConversationWorkload(
    msgspec.Struct, frozen=True, tag_field="kind", tag="conversation", forbid_unknown_fields=True
):
    """The workload that is made from a seed; see `conversation`."""

    seed: int = 0
    count: int | None = None
    duration_s: float | None = None
    rate: float | None = None


class MadeWorkload(msgspec.Struct, frozen=True, tag_field="kind", tag="made", forbid_unknown_fields=True):
    """A made workload in words, `NAME` or `NAME:key=value,…`; see `generate`."""

    words: str
    seed: int = 0
    count: int | None = None
    duration_s: float | None = None
    rate: float | None = None


Workload = TraceWorkload | ConversationWorkload | MadeWorkload


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to send where. `vocabulary` is [first, end) of the token ids; `origin_s` is the monotonic wall instant of
    model time 0, `lead_s` from the start by default: the time that the first connection and body may take."""

    url: str
    model: str
    workload: Workload
    vocabulary: tuple[int, int]
    speed: float = 1.0
    request_prefix: str = "replay"
    tenant_header: str | None = None
    class_header: str | None = None
    returns: Returns = ONCE
    origin_s: float | None = None
    lead_s: float = 0.2
    silence_s_max: float = 600.0
    progress_interval_s: float = 0.25


class Result(msgspec.Struct, frozen=True):
    """What came of it. `complete` is False when a signal ended it early; then `answers` are those in by then."""

    complete: bool
    origin_s: float
    total: int
    answers: list[Answer]


def arrivals_of(workload: Workload, vocabulary: Vocabulary) -> list[Arrival]:
    """The workload that a spec names. Raises TraceError or ValueError as its maker does."""
    match workload:
        case TraceWorkload(path, limit, spread, rate, trace_format, block_tokens):
            return load_trace(
                path,
                vocabulary,
                trace_format=trace_format,
                limit=limit,
                spread=spread,
                rate=rate,
                block_tokens=block_tokens,
            ).arrivals
        case ConversationWorkload(seed, count, duration_s, rate):
            return list(conversation(vocabulary, seed=seed, count=count, duration_s=duration_s, rate=rate))
        case MadeWorkload(words, seed, count, duration_s, rate):
            name, parameters = read_name(words)
            made = generate(
                name, vocabulary, seed=seed, count=count, duration_s=duration_s, rate=rate, parameters=parameters
            )
            return list(made)


async def replay(spec: Spec, arrivals: Sequence[Arrival], on_progress: Callable[[Progress], None]) -> Result:
    """Sends `arrivals`; ends early, with what there is, when this process gets SIGINT or SIGTERM."""
    client = ReplayClient(
        spec.url,
        spec.model,
        speed=spec.speed,
        request_prefix=spec.request_prefix,
        tenant_header=spec.tenant_header,
        class_header=spec.class_header,
        returns=spec.returns,
        silence_s_max=spec.silence_s_max,
    )
    origin_s = time.monotonic() + spec.lead_s if spec.origin_s is None else spec.origin_s
    run = asyncio.ensure_future(client.run(arrivals, origin_s=origin_s, on_progress=on_progress))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.cancel)
    try:
        await run
    except asyncio.CancelledError:
        return Result(False, origin_s, requests(arrivals), client.answers)
    return Result(True, origin_s, requests(arrivals), client.answers)


def main(arguments: Sequence[str]) -> int:
    """Runs `SPEC RESULT`. Returns 0 for a whole run, 1 for one ended early, 2 for a spec or trace that is refused."""
    try:
        spec_path, result_path = arguments
        spec = msgspec.json.decode(Path(spec_path).read_bytes(), type=Spec)
        arrivals = arrivals_of(spec.workload, Vocabulary(*spec.vocabulary))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    told_s = -spec.progress_interval_s

    def tell(progress: Progress) -> None:
        nonlocal told_s
        over = progress.completed + progress.shed + progress.failed == progress.total
        if over or time.monotonic() - told_s >= spec.progress_interval_s:
            told_s = time.monotonic()
            print(msgspec.json.encode(progress).decode(), flush=True)

    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        result = runner.run(replay(spec, arrivals, tell))
    Path(result_path).write_bytes(msgspec.json.encode(result))
    return 0 if result.complete else 1


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    if sys.platform == "win32":
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
