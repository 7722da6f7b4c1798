"""What kept the heads of queues waiting last, so that each request can be told what it waited for."""

from dataclasses import dataclass, field

from vicinal.cluster.ledger import Ledger
from vicinal.contracts.flow import Waiting
from vicinal.domain.ids import ModelId
from vicinal.domain.lane import Lane
from vicinal.domain.verdict import Rule
from vicinal.scheduler.awaited import LONG_ENDS, Awaited, awaited
from vicinal.scheduler.filters import Filtered

_Queue = tuple[ModelId, str, Lane]


@dataclass(slots=True)
class Kept:
    """Words are made when they are asked for: most findings are overtaken by the next before."""

    _found: dict[_Queue, Filtered | Awaited] = field(default_factory=dict)

    def note(self, waiting: Waiting, out: Filtered) -> None:
        """`waiting` had the turn and could not go. Saturation keeps both lanes of its pool."""
        model, pool = waiting.request.model, waiting.pool
        for lane in Lane if Rule.SATURATED in out.rules else (waiting.lane,):
            self._found[model, pool, lane] = out

    def note_long(self, model: ModelId) -> None:
        """Its long lane is closed."""
        self._found[model, "", Lane.LONG] = LONG_ENDS

    def what_for(self, waiting: Waiting, ledger: Ledger) -> Awaited | None:
        """What its queue waited for last; None where nothing was found yet."""
        model, lane = waiting.request.model, waiting.lane
        for queue in ((model, waiting.pool, lane), (model, "", lane)):
            found = self._found.get(queue)
            if isinstance(found, Filtered):
                found = self._found[queue] = awaited(found, ledger)
            if found is not None:
                return found
        return None

    def forget(self, model: ModelId) -> None:
        """Nothing waits for it any more."""
        for queue in [queue for queue in self._found if queue[0] == model]:
            del self._found[queue]
