"""What early rejection looks at: the fleet of one model at the moment of an arrival."""

from collections.abc import Callable, Sequence

from msgspec import Struct


class Outlook(Struct, frozen=True):
    """Seconds are predicted compute over the endpoints that prefill, unless said otherwise.

    `engine_wait_s` is the shortest queue at an engine; `held_s` is all that is held, `ahead_s` what of it goes first.
    `prefill_s` is the newcomer's own. `decode_began_s` are the times at which what decodes now began, `decode_s` how
    long decoding takes on average. `on_the_way` counts who prefills or travels, `ahead` who is held and goes first.
    `strangers` decode beside ours. `tpot_s` says what the time per output token is with so many sequences in all;
    infinite when they do not fit.
    """

    now_s: float
    engine_wait_s: float
    held_s: float
    ahead_s: float
    prefill_s: float
    decode_began_s: Sequence[float]
    decode_s: float
    on_the_way: int
    ahead: int
    strangers: float
    tpot_s: Callable[[float], float]


class Forecast(Struct, frozen=True):
    """When the first token is expected, in seconds from now, and the pace of those that follow."""

    ttft_s: float
    tpot_s: float
