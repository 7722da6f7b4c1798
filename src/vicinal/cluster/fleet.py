"""The endpoints as a struct of arrays, one slot each.

A slot outlives a change of the fleet: an endpoint keeps its slot while it stays, and a newcomer takes the slot of one
that left. So what other rooms key by slot (holders in the index, reservations) stays true across `TopologyChanged`.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId, ModelId


class Fleet:
    """Static facts per slot. A retired slot keeps its last endpoint and is not `active`."""

    def __init__(self) -> None:
        self.endpoints: list[Endpoint] = []
        self.slots: dict[EndpointId, int] = {}
        self._refresh()

    def __len__(self) -> int:
        return len(self.endpoints)

    def change(self, endpoints: Sequence[Endpoint]) -> tuple[list[int], list[int]]:
        """Make the fleet exactly `endpoints`. Returns (slots that left, slots that came).

        An endpoint whose description changed leaves and comes again in the same slot. One that comes back takes its
        old slot unless that has gone to another, so that no endpoint ever stands in two slots.
        """
        wanted = {endpoint.id: endpoint for endpoint in endpoints}
        left = [slot for id_, slot in self.slots.items() if wanted.get(id_) != self.endpoints[slot]]
        for slot in left:
            del self.slots[self.endpoints[slot].id]
        retired = {endpoint.id: slot for slot, endpoint in enumerate(self.endpoints) if endpoint.id not in self.slots}
        free = deque(slot for id_, slot in retired.items() if id_ not in wanted)
        came = []
        for id_, endpoint in wanted.items():
            if id_ in self.slots:
                continue
            if id_ in retired:
                slot = retired[id_]
            elif free:
                slot = free.popleft()
            else:
                slot = len(self.endpoints)
                self.endpoints.append(endpoint)
            self.endpoints[slot] = endpoint
            self.slots[id_] = slot
            came.append(slot)
        self._refresh()
        return left, came

    def _refresh(self) -> None:
        endpoints = self.endpoints
        self.active: NDArray[np.bool_] = np.zeros(len(endpoints), dtype=bool)
        self.active[list(self.slots.values())] = True
        self.prefills = np.array([e.role.prefills for e in endpoints], dtype=bool)
        self.decodes = np.array([e.role.decodes for e in endpoints], dtype=bool)
        self.kv_blocks = np.array([e.kv_blocks for e in endpoints], dtype=np.float64)
        self.kv_tokens = np.array([e.kv_tokens for e in endpoints], dtype=np.float64)
        self.block_tokens = np.array([e.block_tokens for e in endpoints], dtype=np.float64)
        self.kv_bytes_per_token = np.array([e.kv_bytes_per_token for e in endpoints], dtype=np.float64)
        self.sequences_max = np.array([e.sequences_max for e in endpoints], dtype=np.float64)
        self.model_tokens_max = np.array([e.model_tokens_max for e in endpoints], dtype=np.float64)
        self._models = {
            model: np.array([e.model == model for e in endpoints], dtype=bool) & self.active
            for model in {e.model for e in endpoints}
        }

    def of_model(self, model: ModelId) -> NDArray[np.bool_]:
        """Active slots that serve `model`; none for a model that nobody serves."""
        mask = self._models.get(model)
        return np.zeros(len(self.endpoints), dtype=bool) if mask is None else mask
