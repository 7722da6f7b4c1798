"""SGLang's KV events. Its arrays have vLLM's order up to the medium; what it puts behind is not what vLLM has there,
and is not read. A salt is told in maps only: in arrays a salted prompt looks like an unsalted one, so its blocks count
for the wrong prompts unless the build sends maps."""

from types import MappingProxyType

from vicinal.domain.tier import Tier
from vicinal.engines.kv_events import DecodedBatch, EventForm, Source, decode_batch

SGLANG = EventForm(
    stored_fields=6,  # hashes, parent, tokens, block size, LoRA, medium
    removed_fields=2,  # hashes, medium
    tiers=MappingProxyType(
        {
            "GPU": Tier.HBM,
            "CPU": Tier.HOST,
            "CPU_PINNED": Tier.HOST,
            "DISK": Tier.SSD,
            "EXTERNAL": Tier.REMOTE,
        }
    ),
)


def decode(topic: bytes, sequence: bytes, payload: bytes, source: Source) -> DecodedBatch:
    """One batch of an SGLang engine. Raises `UndecodableBatch` and nothing else."""
    return decode_batch(SGLANG, topic, sequence, payload, source)
