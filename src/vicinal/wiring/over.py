"""What the scheduler of a live run says of requests that are over."""

from collections import Counter
from dataclasses import dataclass, field

from vicinal.domain.decision import Observation
from vicinal.domain.outcome import Ending


@dataclass(slots=True)
class Over:
    """`held_s` is how long it held those that it held, in model seconds. `endings` counts requests by how they ended;
    `unreasoned` of them were refused without a reason."""

    held_s: dict[str, float] = field(default_factory=dict)
    endings: Counter[str] = field(default_factory=Counter)
    unreasoned: int = 0

    def note(self, observation: Observation) -> None:
        """One more."""
        self.endings[observation.ending] += 1
        self.unreasoned += observation.ending != Ending.DONE and not observation.reason
        if observation.held_s:
            self.held_s[observation.request_id] = observation.held_s
