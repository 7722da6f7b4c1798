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
    handed to, or pulled from, another engine: a stock engine without a KV connector serves whole requests only.
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

    @property
    def kv_tokens(self) -> int:
        return self.kv_blocks * self.block_tokens
