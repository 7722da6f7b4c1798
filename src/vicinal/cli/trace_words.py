"""What was read of a trace, on the error output: rows that are no request are never left out in silence."""

from pathlib import Path

from rich.console import Console

from vicinal.workload.trace import Trace


def tell_trace(path: str | Path, trace: Trace) -> None:
    """How many requests, of which format, and what was left out or not kept as it stands."""
    Console(stderr=True).print(_told(path, trace), markup=False, highlight=False, soft_wrap=True)


def _told(path: str | Path, trace: Trace) -> str:
    """What was read, and what was not or not as it stands."""
    counted = [
        *(("left out", *pair) for pair in trace.skipped.items()),
        *(("kept", *pair) for pair in trace.assumed.items()),
    ]
    return "\n".join(
        [
            f"{path}: {trace.requests:,} requests, format {trace.trace_format}",
            *(f"  {what}: {count:,} ({reason})" for what, reason, count in counted),
        ]
    )
