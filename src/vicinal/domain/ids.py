"""Names of things. A NewType each, so that the type checker keeps an endpoint from standing where a tenant belongs."""

from typing import NewType

RequestId = NewType("RequestId", str)
EndpointId = NewType("EndpointId", str)
ModelId = NewType("ModelId", str)
TenantId = NewType("TenantId", str)
LinkId = NewType("LinkId", str)

BlockHash = NewType("BlockHash", int)
"""vicinal's own chained hash of a block, an unsigned 64-bit number (kvindex/hashing.py)."""

EngineHash = int | bytes
"""Whatever an engine calls a block in its events; meaningful only together with the endpoint and its incarnation."""
