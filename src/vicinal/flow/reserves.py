"""What is reserved for tenants: whole endpoints, and a share of the sequences and the HBM of every endpoint.

Of a reserved share others may take nothing that the tenant does not use, so room is there when it comes; above its
share the tenant competes like everybody. What was begun elsewhere goes on: a request whose prefill is done, and that
nobody has room for, waits at an engine for its decode, reserve or not.
"""

from dataclasses import dataclass
from math import floor

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.fleet import Fleet
from vicinal.cluster.ledger import Ledger
from vicinal.domain.request import Request
from vicinal.flow.tenants import Tenants

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Kept:
    """Per slot: what must stay free for others than who asks, in blocks and in sequences."""

    blocks: Floats
    sequences: Floats


class Reserves:
    """Costs one look when nothing is reserved. The parties of `ledger` are the tenants with a share, in order."""

    def __init__(self, tenants: Tenants, ledger: Ledger) -> None:
        self.tenants = tenants
        self._ledger = ledger
        self._sharing = [tenant for tenant in tenants.all if tenant.reserved_share > 0.0]
        self._party_of = {(tenant.name, tenant.model): party for party, tenant in enumerate(self._sharing)}
        self._named = {endpoint for tenant in tenants.all for endpoint in tenant.reserved_endpoints}
        self._fleet_blocks: Floats | None = None
        if self._sharing:
            ledger.count_parties(len(self._sharing))

    def begin(self, request: Request) -> None:
        """Before anything is reserved for the request: whose party it is of."""
        if (party := self._party(request)) is not None:
            self._ledger.join(request.id, party)

    def endpoints_of_others(self, request: Request, fleet: Fleet) -> NDArray[np.bool_] | None:
        """The slots that the request's tenant is kept out of; None for none."""
        if not self._named:
            return None
        tenant = request.tenant
        own = {e for said in self.tenants.all if said.name == tenant for e in said.reserved_endpoints}
        mask = np.zeros(len(fleet), dtype=bool)
        mask[[fleet.slots[endpoint] for endpoint in self._named - own if endpoint in fleet.slots]] = True
        return mask

    def kept_from(self, request: Request, fleet: Fleet) -> Kept | None:
        """What the request must leave; None for nothing."""
        if not self._sharing:
            return None
        self._fit(fleet)
        blocks = np.maximum(self._blocks - self._ledger.party_blocks, 0.0)
        sequences = np.maximum(self._sequences - self._ledger.party_sequences, 0.0)
        if (party := self._party(request)) is not None:
            blocks[party] = sequences[party] = 0.0
        return Kept(blocks.sum(axis=0), sequences.sum(axis=0))

    def _party(self, request: Request) -> int | None:
        if not self._party_of:
            return None
        tenant = self.tenants.of(request.tenant, request.model)
        return None if tenant is None else self._party_of.get((tenant.name, tenant.model))

    def _fit(self, fleet: Fleet) -> None:
        """Work out each party's share of each slot, when the fleet has changed: whole blocks and sequences, of the
        endpoints whose requests count as the party's."""
        if self._fleet_blocks is fleet.kv_blocks:
            return
        self._fleet_blocks = fleet.kv_blocks
        self._blocks = np.zeros((len(self._sharing), len(fleet)))
        self._sequences = np.zeros((len(self._sharing), len(fleet)))
        for party, tenant in enumerate(self._sharing):
            for slot, endpoint in enumerate(fleet.endpoints):
                if self.tenants.of(tenant.name, endpoint.model) is tenant:
                    self._blocks[party, slot] = floor(tenant.reserved_share * endpoint.kv_blocks)
                    self._sequences[party, slot] = floor(tenant.reserved_share * endpoint.sequences_max)
