"""What a tenant may use. Names are those of the configuration, of refusals and of metrics."""

from dataclasses import dataclass
from enum import StrEnum


class Quota(StrEnum):
    """What is limited. The value is the key in [[tenant]], and the `detail` of a refusal."""

    REQUESTS = "requests_per_s"
    TOKENS = "tokens_per_s"
    HBM_BLOCK_S = "hbm_block_seconds_per_s"
    HOST_BLOCK_S = "host_block_seconds_per_s"
    SSD_BLOCK_S = "ssd_block_seconds_per_s"
    COPY_BYTES = "copy_bytes_per_s"
    REMOTE_READS = "remote_reads_per_s"
    GATEWAY_CPU_S = "gateway_cpu_s_per_s"
    CONCURRENCY = "concurrency_max"
    KEPT_BLOCKS = "kept_blocks_max"
    KEPT_GROUPS = "kept_block_groups_max"


RATES = (
    Quota.REQUESTS,
    Quota.TOKENS,
    Quota.HBM_BLOCK_S,
    Quota.HOST_BLOCK_S,
    Quota.SSD_BLOCK_S,
    Quota.COPY_BYTES,
    Quota.REMOTE_READS,
    Quota.GATEWAY_CPU_S,
)
"""Those with a bucket each; of the others there is a figure at any moment."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The quotas of one tenant; None is no limit. `burst_s` is how many seconds' worth of a rate may be used at once.

    docs/tenants.md says of each what is counted, and when.
    """

    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    hbm_block_seconds_per_s: float | None = None
    host_block_seconds_per_s: float | None = None
    ssd_block_seconds_per_s: float | None = None
    copy_bytes_per_s: float | None = None
    remote_reads_per_s: float | None = None
    gateway_cpu_s_per_s: float | None = None
    concurrency_max: int | None = None
    kept_blocks_max: int | None = None
    kept_block_groups_max: int | None = None
    burst_s: float = 10.0

    def per_s(self, quota: Quota) -> float | None:
        """The limit of a rate."""
        limit: float | None = getattr(self, quota.value)
        return limit

    @property
    def keeps_limited(self) -> bool:
        """There is a limit to what its requests make engines keep."""
        return not (self.kept_blocks_max is None and self.kept_block_groups_max is None)
