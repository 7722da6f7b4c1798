"""What an emulated engine notes of each leg, in model seconds: how a run is measured without the gateway's own time."""

import msgspec

from vicinal.domain.plan import Leg


class Stamp(msgspec.Struct, frozen=True):
    """One leg on one engine. What did not happen is None. `cached_tokens` were reused on that engine, `pulled_tokens`
    came to it over the network. Of the cached ones `loaded_tokens` lay below HBM, by tier."""

    request_id: str
    endpoint: str
    leg: Leg
    arrived_s: float
    started_s: float | None = None
    first_token_s: float | None = None
    finished_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    pulled_tokens: int | None = None
    output_tokens: int | None = None
    loaded_tokens: dict[str, int] = {}
