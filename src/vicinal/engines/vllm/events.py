"""vLLM's KV events. Offloading connectors report host memory and storage through the same stream, where a block may be
named by its hash alone: it is one that was stored on the GPU, with its tokens, before."""

from types import MappingProxyType

from vicinal.domain.tier import Tier
from vicinal.engines.kv_events import DecodedBatch, EventForm, Source, decode_batch
from vicinal.engines.kv_fields import Removed, Stored

VLLM = EventForm(
    stored_fields=len(Stored.__struct_fields__) - 1,  # cache_salt is SGLang's
    removed_fields=len(Removed.__struct_fields__),
    tiers=MappingProxyType(
        {
            "GPU": Tier.HBM,
            "CPU": Tier.HOST,
            "DISK": Tier.SSD,
            "STORAGE": Tier.SSD,
            "FS": Tier.SSD,
            "REMOTE": Tier.REMOTE,
            "EXTERNAL": Tier.REMOTE,
            "OBJ": Tier.REMOTE,
        }
    ),
)


def decode(topic: bytes, sequence: bytes, payload: bytes, source: Source) -> DecodedBatch:
    """One batch of a vLLM engine. Raises `UndecodableBatch` and nothing else."""
    return decode_batch(VLLM, topic, sequence, payload, source)
