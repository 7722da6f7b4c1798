"""Faults as a user writes them."""

from math import inf

from vicinal.enginemodel.linkfaults import LinkFault
from vicinal.sim.faults import Death, FaultError


def read_link_fault(words: str) -> LinkFault:
    """`LINK*FACTOR@FROM-UNTIL`; without `-UNTIL` for good, without `*FACTOR` a dead link."""
    what, from_s, until_s = _times(words, "LINK*FACTOR@FROM-UNTIL")
    link, star, factor = what.partition("*")
    return LinkFault(link, from_s, inf if until_s is None else until_s, _number(factor, words) if star else 0.0)


def read_death(words: str) -> Death:
    """`ENDPOINT@AT-BACK`; without `-BACK` it stays dead."""
    return Death(*_times(words, "ENDPOINT@AT-BACK"))


def _times(words: str, form: str) -> tuple[str, float, float | None]:
    what, at, times = words.rpartition("@")
    if not at or not what:
        raise FaultError(f"{words!r} is no fault: write {form}")
    begins, dash, ends = times.partition("-")
    from_s, until_s = _number(begins, words), _number(ends, words) if dash else None
    if from_s < 0 or (until_s is not None and until_s <= from_s):
        raise FaultError(f"{words!r} ends before it begins")
    return what, from_s, until_s


def _number(digits: str, words: str) -> float:
    try:
        return float(digits)
    except ValueError:
        raise FaultError(f"{digits!r} in {words!r} is no number") from None
