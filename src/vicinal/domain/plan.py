"""A plan: one way to serve a request now. It is a row of the decision table."""

from enum import StrEnum

from msgspec import Struct

from vicinal.domain.ids import EndpointId


class Action(StrEnum):
    """What a plan does about the KV that exists elsewhere (MISSION B9)."""

    HIT = "hit"
    REMOTE_READ = "remote_read"
    MIGRATE = "migrate"
    RECOMPUTE = "recompute"
    WAIT = "wait"


class Plan(Struct, frozen=True):
    """Prefill here, decode there. `prefill == decode` is a local plan: one leg, nothing moves.

    `cached_tokens` are expected to be reused on the prefill endpoint; `held_tokens` are already on the decode
    endpoint and need not move, so `moved_tokens` cross the network. Of the cached ones, `from_host_tokens` and
    `from_ssd_tokens` lie below HBM and are loaded first.
    """

    prefill: EndpointId
    decode: EndpointId
    action: Action
    cached_tokens: int
    held_tokens: int
    moved_tokens: int
    from_host_tokens: int = 0
    from_ssd_tokens: int = 0

    @property
    def loaded_tokens(self) -> int:
        return self.from_host_tokens + self.from_ssd_tokens

    @property
    def local(self) -> bool:
        return self.prefill == self.decode


class Leg(StrEnum):
    """Which part of a plan one dispatch carries out."""

    PREFILL = "prefill"
    DECODE = "decode"
    WHOLE = "whole"
