"""An endpoint: one engine (a tensor-parallel group) behind one address, as the configuration describes it."""

from dataclasses import dataclass
from enum import StrEnum

from vicinal.domain.ids import EndpointId, ModelId

HOST_BYTES_PER_S = 55e9
"""Reading host memory over one PCIe 5 x16 link: 64 GB/s, of which about 85 % can be used."""

SSD_BYTES_PER_S = 7e9
"""Reading one NVMe SSD on four lanes of PCIe 4."""


class Role(StrEnum):
    """Which phases an endpoint takes. A decode endpoint can also prefill locally (a plan with P == D)."""

    PREFILL = "prefill"
    DECODE = "decode"
    BOTH = "both"

    @property
    def prefills(self) -> bool:
        return self is not Role.DECODE

    @property
    def decodes(self) -> bool:
        return self is not Role.PREFILL


class HandOff(StrEnum):
    """How KV gets from the engine that prefilled to the one that decodes. A pair has one kind on both sides.

    `NIXL` is pulled: the prefill leg's answer names the KV, and the decode leg brings that along. The other two are
    concurrent: both legs leave together and meet at the prefill engine's bootstrap server, so decode is bound at once.
    """

    NIXL = "nixl"
    MOONCAKE = "mooncake"
    BOOTSTRAP = "bootstrap"

    @property
    def concurrent(self) -> bool:
        return self is not HandOff.NIXL

    @property
    def copies(self) -> bool:
        """A hand-off whose answer is thrown away leaves a copy of the prompt's KV behind (seen on a real engine)."""
        return self is HandOff.NIXL

    @property
    def halves_need_each_other(self) -> bool:
        """An engine that runs as one half of such a pair cannot serve a request by itself."""
        return self is HandOff.BOOTSTRAP


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an endpoint stands, outermost last. An empty name means Unknown, which is priced as far, never as near."""

    host: str = ""
    leaf: str = ""
    pod: str = ""
    site: str = ""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """What is known of an engine before it says anything.

    `profile` names the cost profile (enginemodel/profiles.py). `kv_blocks` is the HBM that holds KV, in blocks.
    `events_url` and `replay_url` are ZMQ addresses of its KV events; empty means that it sends none, so what it holds
    is inferred. `nic_bytes_per_s` is one direction of its network interface. `hands_off` says whether its KV can be
    handed to, or pulled from, another engine: a stock engine without a KV connector serves whole requests only; if it
    can, `hand_off` says how, and `bootstrap_port` is where the legs of a concurrent hand-off meet on its host.
    `dialect` is a name in capabilities.py. `data_parallel_rank` is set where one address stands for several engines,
    each an endpoint of its own with a cache of its own: requests name the rank, and only its figures are read.
    `host_blocks` and `ssd_blocks` are the tiers that it offloads KV to, 0 for none; the rates are those of reading it
    back, for the whole engine: SSD into host memory, and host memory into HBM.
    """

    id: EndpointId
    url: str
    role: Role
    model: ModelId
    profile: str
    kv_blocks: int
    block_tokens: int
    kv_bytes_per_token: int
    model_tokens_max: int
    nic_bytes_per_s: float
    placement: Placement = Placement()
    sequences_max: int = 256
    dialect: str = "vllm"
    events_url: str = ""
    replay_url: str = ""
    hands_off: bool = True
    host_blocks: int = 0
    ssd_blocks: int = 0
    host_bytes_per_s: float = HOST_BYTES_PER_S
    ssd_bytes_per_s: float = SSD_BYTES_PER_S
    hand_off: HandOff = HandOff.NIXL
    bootstrap_port: int = 8998
    data_parallel_rank: int | None = None

    @property
    def serves_whole(self) -> bool:
        """It can do both phases of a request by itself."""
        return self.role.decodes and not (self.hands_off and self.hand_off.halves_need_each_other)

    @property
    def kv_tokens(self) -> int:
        return self.kv_blocks * self.block_tokens
