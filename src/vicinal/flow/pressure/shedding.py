"""Which arrivals pressure turns away: those of the lowest bands, so that it falls where nobody waits for an answer.

Not those that say how long they may wait (`wait_s_max` of their class): they are held, within the bounds of the queue.
"""

from vicinal.domain.band import Band
from vicinal.domain.ids import EndpointId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.pressure import PressureLevel
from vicinal.domain.request import Request
from vicinal.flow.pressure.pressure import Pressure
from vicinal.flow.pressure.standing import Standing
from vicinal.flow.pressure.wording import cause_words

_SHED = {
    PressureLevel.NORMAL: (),
    PressureLevel.SOFT: (Band.BACKGROUND,),
    PressureLevel.HARD: (Band.BATCH, Band.BACKGROUND),
}


def may_be_shed(band: Band) -> bool:
    return band in _SHED[PressureLevel.HARD]


def patient(request: Request) -> bool:
    """It says itself how long it may wait for its turn, and waits for so long: pressure is when there are no turns."""
    return request.copy_to is None and request.service.wait_s_max is not None


def shed(request: Request, slots: dict[EndpointId, int], pressure: Pressure) -> Outcome | None:
    """The outcome of a request that arrives and is turned away, without a time to come back; None for all others. A
    copy is turned away when its target is under pressure, too."""
    if not may_be_shed(request.band) or patient(request):
        return None
    standing = pressure.of_model(request.model)
    if request.band in _SHED[standing.level]:
        return _outcome(str(request.model), standing, request.band)
    if request.copy_to in slots:
        standing = pressure.of_slot(slots[request.copy_to])
        if standing.level is not PressureLevel.NORMAL:
            return _outcome(str(request.copy_to), standing, request.band)
    return None


def _outcome(who: str, standing: Standing, band: Band) -> Outcome:
    assert standing.cause is not None
    words = f"{standing.level} pressure on {who}: {cause_words(standing.cause)}; no {band} work is taken now"
    return Outcome(Ending.OVERLOADED, words, detail=standing.cause.signal)
