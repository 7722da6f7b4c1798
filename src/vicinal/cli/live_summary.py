"""What `vicinal up` shows while it runs: how far the workload is, and what each endpoint is doing."""

from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from vicinal.replay.answer import Progress as ReplayProgress
from vicinal.wiring.live import LiveSystem

REFRESH_PER_S = 4


class LiveSummary:
    """A context in which the terminal is kept up to date; a file or pipe gets a line at the start and per tenth."""

    def __init__(self, console: Console, live: LiveSystem) -> None:
        self._system = live
        self._addresses = f"API {live.api_url}, metrics and state {live.admin_url}"
        self._bar = Progress(
            TextColumn("requests"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rest]}"),
            TimeElapsedColumn(),
        )
        self._task = self._bar.add_task("requests", total=None, rest="")
        self._display = Live(
            get_renderable=self._render, console=console, refresh_per_second=REFRESH_PER_S, transient=True
        )
        self._console = console
        self._shown = console.is_terminal
        self._tenths_told = 0

    def __enter__(self) -> Self:
        if self._shown:
            self._display.start()
        else:
            self._say(self._addresses)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            self._display.stop()

    def progress(self, seen: ReplayProgress) -> None:
        over = seen.completed + seen.shed + seen.failed
        rest = f"{seen.sent - over} under way, {seen.failed} failed, {seen.shed} shed"
        self._bar.update(self._task, total=seen.total, completed=over, rest=rest)
        tenths = 10 * over // max(seen.total, 1)
        if tenths > self._tenths_told:
            self._tenths_told = tenths
            if not self._shown:
                self._say(f"{over} of {seen.total} requests are over, {rest}")

    def _say(self, line: str) -> None:
        self._console.print(line, highlight=False, soft_wrap=True)

    def _render(self) -> Group:
        state = self._system.state()
        table = Table(
            title=f"policy {state['policy']}, price of prefill {state['prefill_price_s_per_s']:.2f} s/s",
            caption=self._addresses,
        )
        for column in ("endpoint", "role", "prefill wait s", "prefills", "sequences", "free blocks", "known blocks"):
            table.add_column(column, justify="left" if column in ("endpoint", "role") else "right")
        for row in state["endpoints"]:
            table.add_row(
                row["id"],
                row["role"],
                f"{row['wait_prefill_s']:.2f}",
                str(row["prefills"]),
                f"{row['decode_sequences']:.0f}",
                f"{row['free_blocks']:,.0f}",
                f"{row['blocks_known']:,}",
            )
        return Group(self._bar, table)
