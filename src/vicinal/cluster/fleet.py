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
    """Static facts per slot. A retired slot keeps its last endpoint and is not `active`.

    `leaf` is each slot's number in `leaves`, which are in order of their names; the empty name is Unknown.
    `not_prefill` and `not_decode` cannot have that part in a pair, `not_whole` cannot serve a whole request.
    `hand_offs` are the slots of each kind of hand-off, when there are several kinds; `alone` are those that can only be
    half of a pair and have nobody of their kind to go with, None for nobody.
    A prompt shorter than `prompt_tokens_limit`, and a request of at most `request_tokens_max`, fit every endpoint;
    none fills more blocks than those of `block_tokens_min` would be. `decoding_max` is `sequences_max`, and no limit
    where nothing decodes.
    """

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
        self.hands_off = np.array([e.hands_off for e in endpoints], dtype=bool)
        self.makes_copies = np.array([e.hands_off and e.hand_off.copies for e in endpoints], dtype=bool)
        self.kv_blocks = np.array([e.kv_blocks for e in endpoints], dtype=np.float64)
        self.kv_tokens = np.array([e.kv_tokens for e in endpoints], dtype=np.float64)
        self.block_tokens = np.array([e.block_tokens for e in endpoints], dtype=np.float64)
        self.kv_bytes_per_token = np.array([e.kv_bytes_per_token for e in endpoints], dtype=np.float64)
        self.sequences_max = np.array([e.sequences_max for e in endpoints], dtype=np.float64)
        self.model_tokens_max = np.array([e.model_tokens_max for e in endpoints], dtype=np.float64)
        self.leaves = sorted({e.placement.leaf for e in endpoints})
        self.leaf = np.array([self.leaves.index(e.placement.leaf) for e in endpoints], dtype=np.intp)
        self.not_prefill = ~(self.prefills & self.hands_off)
        self.not_decode = ~(self.decodes & self.hands_off)
        self.not_whole = np.array([not e.serves_whole for e in endpoints], dtype=bool)
        self.hand_offs = self._by_hand_off()
        self.alone = self._without_partner() if self.hand_offs else None
        self.decoding_max = np.where(self.decodes, self.sequences_max, np.inf)
        self.prompt_tokens_limit = float(self.model_tokens_max.min(initial=np.inf))
        self.request_tokens_max = float(self.kv_tokens.min(initial=np.inf))
        self.block_tokens_min = float(self.block_tokens.min(initial=np.inf))
        self._models = {
            model: np.array([e.model == model for e in endpoints], dtype=bool) & self.active
            for model in {e.model for e in endpoints}
        }
        self._strangers = {model: None if mask.all() else ~mask for model, mask in self._models.items()}

    def _by_hand_off(self) -> tuple[NDArray[np.bool_], ...]:
        kinds = {endpoint.hand_off for endpoint in self.endpoints if endpoint.hands_off}
        if len(kinds) < 2:
            return ()
        return tuple(
            np.array([e.hands_off and e.hand_off is kind for e in self.endpoints], dtype=bool) for kind in sorted(kinds)
        )

    def _without_partner(self) -> NDArray[np.bool_] | None:
        alone = np.zeros(len(self.endpoints), dtype=bool)
        for kind in self.hand_offs:
            present = kind & self.active
            if not (present & self.decodes).any():
                alone |= kind
            elif not (present & self.prefills).any():
                alone |= kind & self.not_whole
        return alone if alone.any() else None

    def of_model(self, model: ModelId) -> NDArray[np.bool_]:
        """Active slots that serve `model`; none for a model that nobody serves."""
        mask = self._models.get(model)
        return np.zeros(len(self.endpoints), dtype=bool) if mask is None else mask

    def not_of_model(self, model: ModelId) -> NDArray[np.bool_] | None:
        """The other slots; None when there are none."""
        return self._strangers[model] if model in self._strangers else np.ones(len(self.endpoints), dtype=bool)
