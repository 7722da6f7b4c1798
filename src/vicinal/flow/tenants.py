"""What an operator says of tenants: their weight, their quotas, what is reserved for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from vicinal.domain.ids import EndpointId, ModelId, TenantId
from vicinal.flow.quotas.rules import Rules

EVERYBODY = TenantId("*")
"""Stands for each tenant of which nothing else is said. Each has buckets of its own."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """`model` is what it is about, None for all models together. `weight` is its share while tenants compete for turns,
    `rules` are its quotas, None for none. Others are kept out of `reserved_endpoints`, and of what it does not use of
    `reserved_share` of each endpoint's sequences and HBM."""

    name: TenantId
    model: ModelId | None = None
    weight: float = 1.0
    rules: Rules | None = None
    reserved_endpoints: tuple[EndpointId, ...] = ()
    reserved_share: float = 0.0


class Tenants:
    """Finds what is said of a tenant: of it and the model, of it, of everybody and the model, of everybody; what comes
    first counts alone."""

    def __init__(self, tenants: Sequence[Tenant] = ()) -> None:
        self.all = tuple(tenants)
        self._reserving = {
            tenant.name for tenant in tenants if tenant.reserved_endpoints or tenant.reserved_share > 0.0
        }
        self._found = {(tenant.name, tenant.model): tenant for tenant in tenants}

    def of(self, name: TenantId, model: ModelId) -> Tenant | None:
        found = self._found
        if not found:
            return None
        return (
            found.get((name, model))
            or found.get((name, None))
            or found.get((EVERYBODY, model))
            or found.get((EVERYBODY, None))
        )

    def weight(self, name: TenantId, model: ModelId) -> float:
        """1 for a tenant of which nothing is said."""
        tenant = self.of(name, model)
        return 1.0 if tenant is None else tenant.weight

    def reserves(self, name: TenantId) -> bool:
        """It has places of its own, for some model."""
        return name in self._reserving
