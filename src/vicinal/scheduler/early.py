"""Early rejection: a request whose objective cannot be met is told so when it arrives, before anybody computes for it.

A class that says how long it may wait for its turn (`wait_s_max`) is in time within that; another within its TTFT
objective.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from vicinal.cluster.state import ClusterState
from vicinal.cluster.view import View
from vicinal.contracts.flow import Waiting
from vicinal.cost.model import CostModel
from vicinal.domain.ids import ModelId, RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.request import Request
from vicinal.flow.admission.current import current
from vicinal.flow.admission.margin import Margin
from vicinal.flow.admission.name import EarlyName
from vicinal.flow.admission.outlook import Forecast, Outlook
from vicinal.flow.admission.predicted import predicted
from vicinal.flow.flow import Flow
from vicinal.scheduler.tracked import Tracked

MEAN_GAIN = 0.05

FORECASTS: Mapping[EarlyName, Callable[[Outlook], Forecast] | None] = MappingProxyType(
    {EarlyName.NONE: None, EarlyName.CURRENT: current, EarlyName.PREDICTED: predicted}
)
"""By name."""


def patience_until_s(waiting: Waiting) -> float:
    """When its first token is too late for its class."""
    return max(waiting.due_s, waiting.since_s + (waiting.request.service.wait_s_max or 0.0))


@dataclass(slots=True)
class _Decodes:
    """Of one model: when each of those that decode began, how long it takes on average, and the margin of
    forecasts."""

    began_s: dict[RequestId, float] = field(default_factory=dict)
    mean_s: float = 0.0
    margin: Margin = field(default_factory=Margin)


class EarlyRejection:
    """`forecast` None refuses nobody. Told of each decode's begin and end, whatever it is set to."""

    def __init__(
        self,
        state: ClusterState,
        cost: CostModel,
        flow: Flow,
        forecast: Callable[[Outlook], Forecast] | None,
    ) -> None:
        self._state = state
        self._cost = cost
        self._flow = flow
        self._forecast = forecast
        self._decodes: dict[ModelId, _Decodes] = {}

    @property
    def refuses(self) -> bool:
        """It may refuse somebody."""
        return self._forecast is not None

    def began(self, tracked: Tracked, now: float) -> None:
        """Its first token is there, or is taken to be."""
        if self._forecast is None:
            return
        decodes = self._of(tracked.request.model)
        decodes.began_s.setdefault(tracked.id, now)
        if tracked.patience_s is not None and tracked.first_token_s is not None:
            decodes.margin.observe(late=tracked.first_token_s - tracked.arrived_s > tracked.patience_s)

    def ended(self, tracked: Tracked, now: float) -> None:
        """It is over, however it ended and whether or not it decoded."""
        decodes = self._decodes.get(tracked.request.model)
        began_s = None if decodes is None else decodes.began_s.pop(tracked.id, None)
        if decodes is not None and began_s is not None:
            gain = MEAN_GAIN if decodes.mean_s else 1.0
            decodes.mean_s += gain * (now - began_s - decodes.mean_s)

    def refusal(self, tracked: Tracked, waiting: Waiting, now: float) -> Outcome | None:
        """The outcome of a newcomer that cannot be served in time, to come back when it could. One that is let in
        is watched: whether it was in time steers the margin."""
        if self._forecast is None or waiting.request.copy_to is not None:
            return None
        request = waiting.request
        patience_s = patience_until_s(waiting) - waiting.since_s
        seen = self._forecast(self._outlook(waiting, now))
        wait_s = seen.ttft_s - waiting.prefill_s
        longest_s = (patience_s - waiting.prefill_s) * (1.0 - self._of(request.model).margin.share)
        if wait_s > max(longest_s, 0.0):
            words = (
                f"its first token is expected after {seen.ttft_s:.1f} s and should come within {patience_s:.1f} s: it "
                f"would wait for {wait_s:.1f} s, and to be sure it may for {max(longest_s, 0.0):.1f} s"
            )
            return Outcome(Ending.TOO_LATE, words, wait_s - longest_s, "ttft")
        objective_s = request.service.tpot_objective_s
        if seen.tpot_s > objective_s:
            pace = "would find no room" if np.isinf(seen.tpot_s) else f"would take {seen.tpot_s * 1e3:.0f} ms per token"
            words = f"its decode {pace}, and should take {objective_s * 1e3:.0f} ms"
            return Outcome(Ending.TOO_LATE, words, seen.ttft_s, "tpot")
        tracked.patience_s = patience_s
        return None

    def _outlook(self, waiting: Waiting, now: float) -> Outlook:
        request = waiting.request
        view, decodes = self._state.view(now), self._of(request.model)
        queueing = self._cost.queueing(view, request.model)
        servers = max(len(queueing), 1)
        ahead_s, ahead = self._flow.ahead_of(waiting)
        ledger = self._state.ledger
        decoding = self._cost.decoding(view, request.model)
        own = ledger.decode_count + ledger.pencilled_count
        return Outlook(
            now_s=now,
            engine_wait_s=float(np.min(view.wait_prefill_s[queueing], initial=np.inf)) if len(queueing) else 0.0,
            held_s=self._flow.prefill_s(request.model) / servers,
            ahead_s=ahead_s / servers,
            prefill_s=waiting.prefill_s,
            decode_began_s=tuple(decodes.began_s.values()),
            decode_s=decodes.mean_s,
            on_the_way=max(0, int(own[decoding].sum()) - len(decodes.began_s)),
            ahead=ahead,
            strangers=float(np.maximum(view.decode_sequences - own, 0.0)[decoding].sum()),
            tpot_s=lambda sequences: self._tpot_s(request, view, sequences),
        )

    def _tpot_s(self, request: Request, view: View, sequences: float) -> float:
        """With so many sequences spread evenly over the endpoints that decode, of contexts as they are on average."""
        pools, fleet = self._cost.pools, view.fleet
        decoding = self._cost.decoding(view, request.model)
        if not len(decoding):
            return 0.0
        slots = pools.decode_slots
        each = sequences / len(decoding)
        own = request.prompt_tokens + request.expected_output_tokens / 2
        context_tokens = self._state.mean_context_tokens or own
        able = np.isin(slots, decoding)
        fits = (each <= fleet.sequences_max[slots]) & (each * context_tokens <= fleet.kv_tokens[slots]) & able
        step_s = pools.decode_fit.step_s(np.full(len(slots), each), np.full(len(slots), each * context_tokens))
        return float(np.min(step_s, where=fits, initial=np.inf))

    def _of(self, model: ModelId) -> _Decodes:
        return self._decodes.setdefault(model, _Decodes())
