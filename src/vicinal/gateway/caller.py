"""Who asks, as far as a request itself does not say it."""

from dataclasses import dataclass

from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import INTERACTIVE, ServiceClass

DEFAULT_TENANT = TenantId("default")
"""Of everybody who is not known."""


@dataclass(frozen=True, slots=True)
class Caller:
    """On whose behalf a request comes, the models that it may use (None: all), and its class of service."""

    tenant: TenantId = DEFAULT_TENANT
    models: frozenset[ModelId] | None = None
    service: ServiceClass = INTERACTIVE

    def may_use(self, model: ModelId) -> bool:
        return self.models is None or model in self.models


ANYBODY = Caller()
