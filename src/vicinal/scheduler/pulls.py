"""What decode endpoints pull, beside what their plans said they lack.

An engine gives no figure per request here, but a counter of all prompt tokens that came to it by transfer. A plan
promises how many must move. Transfers under way may be counted already or not yet, so the comparison is one-sided and
safe: what was pulled since a first report is at most what was sent there since, and what was still under way then. More
than that was pulled although we believed it there.
"""

from dataclasses import dataclass

from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport

WINDOW_TOKENS = 20_000
"""Promised tokens (moved and held) after which a window is judged and a new one begins."""

MORE_SHARE = 0.2
"""Of what was promised to be held: so much pulled in addition is more than a few evictions between plan and pull."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of one window. `excess` is in tokens, 0 or more."""

    excess: float
    more: bool


@dataclass(slots=True)
class _Window:
    """Since the report that began it, in tokens. `begun_pulled` is the engine's counter then, None before that."""

    begun_pulled: float | None = None
    moved: float = 0.0
    held: float = 0.0
    under_way: float = 0.0


class Pulls:
    """Promises and reports per decode endpoint."""

    def __init__(self) -> None:
        self._windows: dict[EndpointId, _Window] = {}

    def sent(self, endpoint: EndpointId, moved_tokens: int, held_tokens: int) -> None:
        """A decode leg goes there. Every `sent` is ended by one `arrived`."""
        window = self._windows.setdefault(endpoint, _Window())
        window.moved += moved_tokens
        window.held += held_tokens
        window.under_way += moved_tokens

    def arrived(self, endpoint: EndpointId, moved_tokens: int) -> None:
        """Its transfer is over, or will never be."""
        window = self._windows.get(endpoint)
        if window is not None:
            window.under_way = max(0.0, window.under_way - moved_tokens)

    def reported(self, report: EndpointReport) -> Verdict | None:
        """The engine's counter. A verdict when the window has enough in it; None before, and where there is nothing to
        judge: no counter, or nothing that was believed to be held."""
        pulled, window = report.prompt_pulled_tokens, self._windows.get(report.endpoint)
        if pulled is None or window is None:
            return None
        if window.begun_pulled is None or pulled < window.begun_pulled:  # the first, or the engine began anew
            self._begin(window, pulled)
            return None
        if window.moved + window.held < WINDOW_TOKENS:
            return None
        excess = max(0.0, pulled - window.begun_pulled - window.moved)
        verdict = Verdict(excess, excess > MORE_SHARE * window.held) if window.held else None
        self._begin(window, pulled)
        return verdict

    def forget(self, endpoint: EndpointId) -> None:
        self._windows.pop(endpoint, None)

    def _begin(self, window: _Window, pulled: float) -> None:
        window.begun_pulled = pulled
        window.moved, window.held = window.under_way, 0.0
