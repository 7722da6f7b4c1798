"""What can happen to the scheduler. Past tense: an event is a fact that a driver has seen."""

from msgspec import Struct

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId, EngineHash, RequestId
from vicinal.domain.plan import Leg
from vicinal.domain.pressure import Signal
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import Request
from vicinal.domain.tier import Tier


class RequestArrived(Struct, frozen=True):
    request: Request


class PrefillDone(Struct, frozen=True):
    """The prefill leg answered. `handed_off` is False when it ended the request (EOS at the first token).

    `cached_tokens` is the engine's own count of reused prompt tokens; None when it does not say.
    """

    request_id: RequestId
    attempt: int
    cached_tokens: int | None
    handed_off: bool = True


class FirstToken(Struct, frozen=True):
    """The first token of the decoding leg reached the gateway: its transfer, if any, is over.

    An unstreamed answer comes whole and shows no first token, so this event never comes for it.
    """

    request_id: RequestId
    attempt: int


class RequestFinished(Struct, frozen=True):
    """The last byte of the answer came from the engine. `output_tokens` is None when the engine does not say.

    `cached_tokens` is the engine's figure for a plan of one leg; a hand-off reports it in `PrefillDone`. `usage_asked`
    is False for a stream whose client asked for no usage: then it means nothing that the engine states none.
    """

    request_id: RequestId
    attempt: int
    output_tokens: int | None
    cached_tokens: int | None = None
    usage_asked: bool = True


class LegFailed(Struct, frozen=True):
    """A leg ended badly. `client_fault` means that the engine answered 4xx: no other endpoint would do better.

    `started` is True when bytes of the answer were already sent to the client, so the request cannot be replanned.
    `answered` is True when the engine itself said that it cannot, with an error: it is alive.
    """

    request_id: RequestId
    attempt: int
    leg: Leg
    reason: str
    client_fault: bool = False
    started: bool = False
    answered: bool = False


class ClientGone(Struct, frozen=True):
    request_id: RequestId


class RelayLost(Struct, frozen=True):
    """The relay that carried the request is gone, and with it its client and all that was under way for it."""

    request_id: RequestId


class BlocksStored(Struct, frozen=True):
    """An engine holds new blocks in one of its tiers. All lists are per block.

    `token_ids` is packed little-endian uint32, flat. `extra_keys` is what the engine mixes into each block's hash
    besides tokens (LoRA, cache salt), one bytes per block, empty for none. `parent` is None at the root of a prompt.
    `block_hashes` are vicinal's own hashes, packed, where the sender knows them; there are no tokens then. Neither are
    there where an engine names blocks of a lower tier by `hashes` alone: it stored them with their tokens before.
    """

    endpoint: EndpointId
    incarnation: int
    sequence: int
    parent: EngineHash | None
    hashes: tuple[EngineHash, ...]
    token_ids: bytes
    block_tokens: int
    extra_keys: tuple[bytes, ...] = ()
    tier: Tier = Tier.HBM
    block_hashes: bytes = b""


class BlocksRemoved(Struct, frozen=True):
    endpoint: EndpointId
    incarnation: int
    sequence: int
    hashes: tuple[EngineHash, ...]
    tier: Tier = Tier.HBM


class BlocksCleared(Struct, frozen=True):
    """The engine dropped its whole cache, or what it sent was lost beyond replay: nothing is known to be there.

    `reason` is "reset", "restart" or "gap". A new `incarnation` makes all older hashes of that endpoint void.
    """

    endpoint: EndpointId
    incarnation: int
    sequence: int
    reason: str


class EndpointReported(Struct, frozen=True):
    report: EndpointReport


class EndpointUnreachable(Struct, frozen=True):
    """A scrape or a connection failed: the endpoint is left out until a report comes again."""

    endpoint: EndpointId
    reason: str


class TopologyChanged(Struct, frozen=True):
    """The fleet is now exactly these endpoints."""

    endpoints: tuple[Endpoint, ...]


class Measured(Struct, frozen=True):
    """Somebody measured a signal of pressure, of one endpoint or, without one, of all. A `value` of None takes back
    what was said before: it is unknown now."""

    signal: Signal
    endpoint: EndpointId | None
    value: float | None


class AlarmRang(Struct, frozen=True):
    """The time that `next_alarm()` named has come."""


Event = (
    RequestArrived
    | PrefillDone
    | FirstToken
    | RequestFinished
    | LegFailed
    | ClientGone
    | RelayLost
    | BlocksStored
    | BlocksRemoved
    | BlocksCleared
    | EndpointReported
    | EndpointUnreachable
    | TopologyChanged
    | Measured
    | AlarmRang
)
