"""What to tell a client whose request no endpoint can take now, or was given up after its attempts failed."""

from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.verdict import Rule
from vicinal.scheduler.filters import Filtered
from vicinal.scheduler.tracked import Tracked


def passes(out: Filtered) -> bool:
    """Waiting can cure it."""
    return out.without_passing().can_serve


def refusal(out: Filtered, retry_after_s: float) -> Outcome:
    """The outcome where waiting cures nothing.

    Asked from the most curable reason to the most permanent one: if one endpoint is merely full, the request waits for
    it; a prompt is too long only when it is so for those that do not answer, too.
    """
    fleet = out.view.fleet
    if fleet.active.any() and not fleet.of_model(out.request.model).any():
        return Outcome(Ending.UNKNOWN_MODEL, f"no endpoint serves {out.request.model}")
    words = "; ".join(f"{verdict.endpoint} {verdict.reason}" for verdict in out.verdicts()[:4])
    if out.under([Rule.MODEL]).can_serve and not out.under([Rule.MODEL, Rule.TOO_LONG]).can_serve:
        return Outcome(Ending.TOO_LONG, f"no endpoint takes so long a prompt: {words}")
    return Outcome(
        Ending.NO_ENDPOINT, f"no endpoint can serve: {words or 'one of the two pools is empty'}", retry_after_s
    )


def no_more_attempts(tracked: Tracked, reason: str, detail: str, retry_after_s: float) -> Outcome:
    """`reason` is what the last attempt failed by, `detail` says what forbids another (overload.py)."""
    words = f"{tracked.attempt} attempt{'s' if tracked.attempt > 1 else ''} failed; the last: {reason}"
    if detail == "retry_budget":
        words += f"; it was not tried again, because the retry budget of {tracked.request.tenant} is used up"
    return Outcome(Ending.ENGINE_FAILED, words, retry_after_s, detail)
