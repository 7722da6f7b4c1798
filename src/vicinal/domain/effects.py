"""What the scheduler can ask for. Imperative: a driver performs an effect and brings back what came of it as events."""

from msgspec import Struct

from vicinal.domain.decision import Decision, Observation
from vicinal.domain.ids import EndpointId, RequestId
from vicinal.domain.outcome import Outcome
from vicinal.domain.plan import Leg, Plan


class Dispatch(Struct, frozen=True):
    """Send this leg of the plan to `endpoint`.

    `attempt` is in every event that comes of it, so that a late answer of an abandoned attempt changes nothing.
    """

    request_id: RequestId
    attempt: int
    leg: Leg
    endpoint: EndpointId
    plan: Plan


class Cancel(Struct, frozen=True):
    """Abandon whatever is under way for this attempt: close its connections to the engines."""

    request_id: RequestId
    attempt: int


class Answer(Struct, frozen=True):
    """The request is over and its client has had no answer from an engine: give it this one.

    After the first byte the driver ends the stream with an error event instead of a status.
    """

    request_id: RequestId
    outcome: Outcome


class Record(Struct, frozen=True):
    """Write this decision down."""

    decision: Decision


class RecordObservation(Struct, frozen=True):
    """Write down what became of a request; it always comes after that request's last `Record`."""

    observation: Observation


class Warn(Struct, frozen=True):
    """Tell the operator, once: `kind` is a counter's label, `text` names cause and cure."""

    kind: str
    endpoint: EndpointId | None
    text: str


Effect = Dispatch | Cancel | Answer | Record | RecordObservation | Warn
