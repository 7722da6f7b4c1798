"""[[tenant]] in a file is what the scheduler does."""

import pytest

from tests.builders import report
from vicinal.config.cluster import endpoints
from vicinal.config.default import default_cluster
from vicinal.config.load import parse
from vicinal.config.toml import to_toml
from vicinal.domain.effects import Answer, Dispatch
from vicinal.domain.events import EndpointReported, RequestArrived, TopologyChanged
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.request import INTERACTIVE, Request
from vicinal.wiring.core import make_scheduler
from vicinal.wiring.shown_tenants import shown_tenants

SECTIONS = """
[[tenant]]
name = "*"
weight = 2.0
concurrency_max = 1

[[tenant]]
name = "acme"
weight = 4.0
tokens_per_s = 100.0
burst_s = 1.0
reserved_share = 0.25
"""


def asked(name: str, tenant: str) -> Request:
    return Request(
        RequestId(name), ModelId(default_cluster().model.name), TenantId(tenant), INTERACTIVE, 64, 16, b"", 64, 64
    )


@pytest.mark.mission("B6")
def test_the_file_says_what_tenants_may_use() -> None:
    text = to_toml(default_cluster()).replace("trust_tenant_header = false", "trust_tenant_header = true")
    config = parse(text + SECTIONS, "file", {})
    scheduler = make_scheduler(config, 1.0)
    fleet = endpoints(config)
    scheduler.handle(TopologyChanged(fleet), 0.0)
    for endpoint in fleet:
        scheduler.handle(EndpointReported(report(endpoint.id)), 0.0)
    said = {
        name: next(iter(scheduler.handle(RequestArrived(asked(name, tenant)), 0.0)))
        for name, tenant in (("a1", "a"), ("a2", "a"), ("b1", "b"), ("c1", "acme"), ("c2", "acme"))
    }
    refused = {name: effect.outcome.detail for name, effect in said.items() if isinstance(effect, Answer)}
    assert refused == {"a2": "concurrency_max", "c2": "tokens_per_s"}
    assert scheduler.tenancy.quotas.kv_bytes_per_token == config.model.kv_bytes_per_token
    kept = scheduler.tenancy.reserves.kept_from(asked("q", "a"), scheduler.state.fleet)
    assert kept is not None
    assert set(kept.sequences) == {64.0, 63.0}
    assert scheduler.settings.tenants.weight(TenantId("acme"), ModelId(config.model.name)) == 4.0
    rows = shown_tenants(scheduler, 0.0)
    assert [(row["tenant"], row["under_way"], row["left"]) for row in rows] == [
        ("acme", 1, {"tokens_per_s": -28.0}),
        ("b", 1, {}),
        ("a", 1, {}),
    ]
    assert any(isinstance(effect, Dispatch) for effect in scheduler.handle(RequestArrived(asked("c3", "acme")), 2.0))
