"""SGLang's hand-off: both bodies get one bootstrap address and one room, and leave together.

The prefill engine runs as such: it computes the prompt, sends its KV to whoever comes into the room, and answers when
the KV is gone. It cuts its own answer, so the leg keeps the client's `max_tokens`, which both engines check against
their context. A room that is used twice crashes an engine.
"""

import msgspec

from vicinal.domain.endpoint import HandOff
from vicinal.engines.handover import Rendezvous, Way, usage_told


def _meet(at: Rendezvous) -> dict[str, bytes]:
    return {
        "bootstrap_host": msgspec.json.encode(at.host),
        "bootstrap_port": b"%d" % at.port,
        "bootstrap_room": b"%d" % at.number,
    }


def _meet_rank(at: Rendezvous) -> dict[str, bytes]:
    """The decode engine finds the prefill engine's data-parallel rank by the room's number, unless it is told."""
    fields = _meet(at)
    if at.prefill_rank is not None:
        fields["disagg_prefill_dp_rank"] = b"%d" % at.prefill_rank
    return fields


BOOTSTRAP = Way(
    kind=HandOff.BOOTSTRAP,
    prefill=_meet,
    decode=_meet_rank,
    read=usage_told,
    one_token=False,
    ends_at_eos=False,
)
