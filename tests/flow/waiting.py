"""Requests that wait, and a flow for them."""

from typing import Any

from vicinal.contracts.flow import Waiting
from vicinal.domain.band import Band
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.lane import Lane
from vicinal.domain.request import Request, ServiceClass
from vicinal.flow.flow import Flow
from vicinal.flow.made import FlowSettings, make_flow
from vicinal.flow.tenants import Tenants

MODEL = ModelId("m")


def waiting(
    name: str,
    tenant: str = "a",
    band: Band = Band.DEFAULT,
    lane: Lane = Lane.SHORT,
    since_s: float = 0.0,
    prefill_s: float = 1.0,
    due_s: float = 1e9,
    until_s: float = 1e9,
    pool: str = "",
    **of_request: Any,
) -> Waiting:
    facts: dict[str, Any] = {"prompt_tokens": 1000, "expected_output_tokens": 100}
    request = Request(
        id=RequestId(name),
        model=MODEL,
        tenant=TenantId(tenant),
        service=ServiceClass("any", band=band),
        block_tokens=16,
        block_hashes=b"",
        max_output_tokens=1000,
        **(facts | of_request),
    )
    return Waiting(request, lane, prefill_s, since_s, due_s, until_s, pool)


def flow(queue_max: int = 1000, tenants: Tenants | None = None, **settings: Any) -> Flow:
    return make_flow(FlowSettings(**settings), queue_max, tenants or Tenants(), lambda request: 0)
