"""What to tell a client whose request no endpoint can take now."""

from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.verdict import Rule
from vicinal.scheduler.filters import Filtered


def refusal(out: Filtered, retry_after_s: float) -> Outcome | None:
    """The outcome, or None when waiting can cure it and the request is to be held.

    The least permanent rule decides: if one endpoint is merely full, the request waits for it.
    """
    verdicts = out.verdicts()
    rules = {verdict.rule for verdict in verdicts}
    words = "; ".join(f"{verdict.endpoint} {verdict.reason}" for verdict in verdicts[:4])
    if out.without_passing().can_serve:
        return None
    if rules <= {Rule.MODEL}:
        return Outcome(Ending.UNKNOWN_MODEL, f"no endpoint serves {out.request.model}")
    if rules <= {Rule.MODEL, Rule.TOO_LONG}:
        return Outcome(Ending.TOO_LONG, f"no endpoint takes so long a prompt: {words}")
    return Outcome(Ending.NO_ENDPOINT, f"no endpoint can serve: {words}", retry_after_s)
