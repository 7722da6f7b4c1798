"""`vicinal up`: emulated engines in a process of their own, the live system in this one, load from a third.

The three share nothing but sockets and the instant at which model time began, as they would on three machines. The
monotonic clock is one for all processes of a machine, so that instant is enough to agree on every model second.
"""

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import msgspec

from vicinal.clock import ModelClock
from vicinal.config.cluster import endpoints, tokenizer_folder
from vicinal.config.fleet import Config
from vicinal.config.toml import to_toml
from vicinal.enginemodel.profiles import profile
from vicinal.replay.answer import Answer, Progress
from vicinal.replay.process import Result, Spec, Workload
from vicinal.replay.summary import Summary, summarise
from vicinal.tokenizer.tokenizer import Tokenizer
from vicinal.wire.stamps import Stamp
from vicinal.wiring.children import ChildFailedError, child, first_line, last_words
from vicinal.wiring.live import Listeners, LiveSystem
from vicinal.wiring.over import Over
from vicinal.workload.prompt import Vocabulary
from vicinal.workload.returns import ONCE, Returns

REPORT_WALL_S_MAX = 20.0
CLI = "vicinal.cli.main"
CLIENT = "vicinal.replay.process"


class _ClockDebt(msgspec.Struct):
    worst: float | None


class _EngineSummary(msgspec.Struct):
    """What the emulator says of itself, as far as it is used here."""

    clock_debt: _ClockDebt
    kv_bytes: dict[str, float]


@dataclass(frozen=True, slots=True)
class Played:
    """What client and engines noted of a run. `kv_bytes` crossed the network, by level; `clock_debt` is the worst of
    all engines', None when nothing ran."""

    answers: list[Answer]
    stamps: list[Stamp]
    kv_bytes: dict[str, int]
    clock_debt: float | None


@dataclass(slots=True)
class Embedded:
    """A running embedded cluster. `over` collects what became of requests."""

    config: Config
    live: LiveSystem
    port: int
    origin_s: float
    folder: Path
    over: Over = field(default_factory=Over)

    async def replay(self, workload: Workload, on_progress: Callable[[Progress], None]) -> Summary:
        """Run a workload to its end. Raises ChildFailedError for a workload that the client refuses."""
        played = await self.play(workload, on_progress)
        config = self.config
        fit = profile(config.model.profile)
        return summarise(
            played.answers,
            played.stamps,
            policy=config.scheduler.policy,
            seed=config.scheduler.seed,
            speed=config.emulator.speed,
            unloaded_ttft_s=lambda tokens: fit.prefill_s(tokens, 0),
            kv_bytes=played.kv_bytes,
            clock_debt=played.clock_debt,
            decision_us=self.live.driver.decision_us,
            held_s=self.over.held_s,
        )

    async def play(
        self, workload: Workload, on_progress: Callable[[Progress], None], returns: Returns = ONCE
    ) -> Played:
        """The same, request by request. Where the cluster trusts them, headers say tenant and class of service of each;
        `returns` says how refused clients come back."""
        config = self.config
        trusted = config.server.trust_tenant_header
        vocabulary = vocabulary_of(config)
        spec = Spec(
            url=f"http://{config.server.host}:{self.port}",
            model=config.model.name,
            workload=workload,
            vocabulary=(vocabulary.first, vocabulary.end),
            speed=config.emulator.speed,
            request_prefix=f"replay-{secrets.token_hex(3)}",
            tenant_header=config.server.tenant_header if trusted else None,
            class_header=config.server.class_header if trusted else None,
            returns=returns,
        )
        spec_path, result_path = self.folder / "spec.json", self.folder / "result.json"
        spec_path.write_bytes(msgspec.json.encode(spec))
        async with child(CLIENT, [str(spec_path), str(result_path)]) as client:
            assert client.process.stdout is not None
            async for line in client.process.stdout:
                on_progress(msgspec.json.decode(line, type=Progress))
            if await client.process.wait() != 0:
                raise ChildFailedError(await last_words(client, "the load client"))
        result = msgspec.json.decode(result_path.read_bytes(), type=Result)
        stamps, engines = await self._figures()
        moved = {level: round(kv_bytes) for level, kv_bytes in engines.kv_bytes.items()}
        return Played(result.answers, stamps, moved, engines.clock_debt.worst)

    async def _figures(self) -> tuple[list[Stamp], _EngineSummary]:
        """Each engine's own stamps, and the totals of the process that they all live in."""
        fleet = endpoints(self.config)
        stamps: list[Stamp] = []
        async with aiohttp.ClientSession(raise_for_status=True) as session:
            for endpoint in fleet:
                async with session.get(f"{endpoint.url}/emulator/stamps") as answer:
                    stamps += msgspec.json.decode(await answer.read(), type=list[Stamp])
            async with session.get(f"{fleet[0].url}/emulator/summary") as answer:
                return stamps, msgspec.json.decode(await answer.read(), type=_EngineSummary)


@contextlib.asynccontextmanager
async def embedded(config: Config, capture: Path | None = None) -> AsyncIterator[Embedded]:
    """Start everything, wait until every engine has reported, and stop everything on the way out.

    Raises OSError for a port in use and ChildFailedError when the engines do not come up; both say what to do.
    """
    over = Over()
    with tempfile.TemporaryDirectory(prefix="vicinal-") as name:
        folder = Path(name)
        path = folder / "cluster.toml"
        path.write_text(to_toml(config), encoding="utf-8")
        origin_s = time.monotonic()
        clock = ModelClock(config.emulator.speed, origin_s)
        arguments = ["engine", "--config", str(path), "--origin-s", repr(origin_s)]
        async with child(CLI, arguments) as engines:
            await first_line(engines, "the engine process")
            live = LiveSystem(config, clock, capture, Listeners(observed=over.note))
            try:
                port = await live.start()
                await _until_reported(live)
                yield Embedded(config, live, port, origin_s, folder, over)
            finally:
                await live.stop()


async def _until_reported(live: LiveSystem) -> None:
    deadline_s = time.monotonic() + REPORT_WALL_S_MAX
    while (reported := live.reported()) < len(live.fleet):
        if time.monotonic() > deadline_s:
            raise ChildFailedError(
                f"only {reported} of {len(live.fleet)} engines reported in {REPORT_WALL_S_MAX:.0f} s"
            )
        await asyncio.sleep(0.02)


def vocabulary_of(config: Config) -> Vocabulary:
    """The ids that prompts may have: those of the model's tokenizer without its special ones."""
    folder = tokenizer_folder(config)
    if folder is None:
        raise ValueError("a workload needs a model with a tokenizer: set model.tokenizer")
    tokenizer = Tokenizer.load(folder)
    return Vocabulary.without(tokenizer.vocab_size, tokenizer.special_ids)
