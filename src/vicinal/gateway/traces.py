"""Where an error came from, for logs: its kind and the lines of code. What it says may quote what a client sent."""

import traceback


def trace_of(error: BaseException) -> str:
    """One line per error of the chain, each with the frames that it passed, the first cause first."""
    chain: list[str] = []
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        frames = "".join(traceback.format_tb(at.__traceback__))
        chain.append(f"{frames}{type(at).__module__}.{type(at).__qualname__}")
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return "\n".join(reversed(chain))
