"""Tells of a request's wait, and of its refusal, from what its observation has on record."""

from vicinal.domain.outcome import Ending
from vicinal.domain.passed_by import PassedBy
from vicinal.observe.lines import ObservationRecord


def wait_sentence(seen: ObservationRecord) -> str:
    """How long it was held, where, what for, and whose turns went before; empty for one that was not held."""
    if not seen.held_s:
        return ""
    where = "".join(f", {word} {name}" for word, name in (("band", seen.band), ("lane", seen.lane)) if name)
    waited = f"; it waited for {seen.held_for}" if seen.held_for else ""
    return f"{seen.request_id} was held for {seen.held_s:,.3g} s{where}{waited}{_before(seen.passed_by)}."


def refusal_sentence(seen: ObservationRecord) -> str:
    """Which rule or quota refused it, whose doing that is, and whether coming back helps; empty for one that was
    served, or that failed, or whose ending is none that is known here."""
    if seen.ending not in set(Ending) or not Ending(seen.ending).refused:
        return ""
    meaning = Ending(seen.ending).meaning
    bound = f" by {seen.detail}" if seen.detail else ""
    tenant = f" of tenant {seen.tenant_id}" if seen.tenant_id else ""
    again = "the same request may succeed later" if meaning.again else "the same request would be refused again"
    return f"{seen.request_id}{tenant} was refused{bound} ({meaning.fault}): {meaning.text}; {again}."


def _before(passed: PassedBy | None) -> str:
    if passed is None:
        return ""
    if not passed.all:
        return "; nobody's turn went before"
    counted = (
        (passed.higher, "of higher bands"),
        (passed.aged, "of lower bands by their age"),
        (passed.others, "of other tenants"),
        (passed.own, "of its own tenant"),
    )
    said = ", ".join(f"{number:,} {whose}" for number, whose in counted if number)
    return f"; {passed.all:,} turns went before: {said}"
