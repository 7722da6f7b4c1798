"""[[tenant]]: what is read of it, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from vicinal.config.checks import findings
from vicinal.config.cluster import tenants
from vicinal.config.default import default_cluster
from vicinal.config.fleet import Config
from vicinal.config.load import parse
from vicinal.config.problems import ConfigError, key_text
from vicinal.config.tenants import Tenant
from vicinal.config.toml import to_toml
from vicinal.domain.ids import ModelId, TenantId
from vicinal.flow.quotas.rules import Quota, Rules

MODEL = default_cluster().model.name


def of(*sections: Tenant, known: bool = True) -> Config:
    config = default_cluster()
    return replace(config, tenant=sections, server=replace(config.server, trust_tenant_header=known))


def found(config: Config) -> list[tuple[str, str]]:
    return [(key_text(key), text) for key, text in findings(config)]


@pytest.mark.mission("B6")
@settings(deadline=None)
@given(st.lists(st.sets(st.sampled_from(list(Quota))), max_size=3), st.floats(1e-9, 1e15))
def test_quotas_are_what_the_file_says_and_no_others(given_quotas: list[set[Quota]], figure: float) -> None:
    known = {field.name for field in fields(Tenant)}
    sections = [
        {quota.value: int(figure) + 1 if quota.endswith("max") else figure for quota in quotas if quota.value in known}
        for quotas in given_quotas
    ]
    written = of(*(Tenant(name=f"t{at}", burst_s=3.0, **section) for at, section in enumerate(sections)))
    read = parse(to_toml(written, commented=True), "written", {})
    assert read == written
    for at, section in enumerate(sections):
        tenant = tenants(read).of(TenantId(f"t{at}"), ModelId(MODEL))
        assert tenant is not None
        assert tenant.rules == (Rules(**section, burst_s=3.0) if section else None)


def test_a_wrong_key_is_named_with_its_line() -> None:
    text = to_toml(default_cluster()) + '\n[[tenant]]\nname = "*"\nrequest_per_s = 3.0\n'
    line = text.count("\n")
    with pytest.raises(ConfigError, match=f'file:{line}: tenant.0..request_per_s: unknown key; did you mean "requests'):
        parse(text, "file", {})


def test_weights_are_of_the_section_that_counts() -> None:
    known = tenants(of(Tenant(name="*", weight=2.0), Tenant(name="a", weight=5.0), Tenant(name="a", model=MODEL)))
    weights = [known.weight(TenantId(name), ModelId(model)) for name, model in (("a", MODEL), ("a", "m"), ("b", "m"))]
    assert weights == [1.0, 5.0, 2.0]
    assert tenants(of()).weight(TenantId("a"), ModelId("m")) == 1.0


@pytest.mark.parametrize(
    ("sections", "key", "text"),
    [
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}], "tenant[2].name", '"a" is tenant[0] already; join'),
        ([{"name": "a", "model": MODEL}] * 2, "tenant[1].name", f'already for model "{MODEL}"; join'),
        ([{"name": "a", "model": MODEL + "x"}], "tenant[0].model", f'did you mean "{MODEL}"'),
        ([{"name": "*", "reserved_share": 0.1}], "tenant[0].reserved_share", "name a tenant"),
        ([{"name": "*", "reserved_endpoints": ("r1-p1",)}], "tenant[0].reserved_endpoints", "name a tenant"),
        ([{"name": "a", "reserved_endpoints": ("r1-p",)}], "tenant[0].reserved_endpoints", 'did you mean "r1-p'),
        (
            [{"name": "a", "reserved_share": 0.6}, {"name": "b"}, {"name": "c", "reserved_share": 0.5}],
            "tenant[2].reserved_share",
            "the shares come to 1.1",
        ),
        (
            [{"name": "a", "model": MODEL, "reserved_share": 0.6}, {"name": "c", "reserved_share": 0.5}],
            "tenant[1].reserved_share",
            "the shares come to 1.1",
        ),
    ],
)
def test_what_cannot_be_is_refused(sections: list[dict[str, object]], key: str, text: str) -> None:
    ((where, words),) = found(of(*(Tenant(**section) for section in sections)))
    assert where == key
    assert text in words


def test_what_can_be_is_not_refused() -> None:
    shared = {"reserved_endpoints": ("r1-p1",), "reserved_share": 0.5}
    fine = of(Tenant(name="*"), Tenant(name="a", **shared), Tenant(name="b", **shared), Tenant(name="a", model=MODEL))
    assert found(fine) == []


def test_tenants_have_to_be_known() -> None:
    config = of(Tenant(name="default"), Tenant(name="*"), Tenant(name="a"), known=False)
    ((where, words),) = found(config)
    assert where == "tenant[2].name"
    assert "keys_file" in words
    assert found(replace(config, access=replace(config.access, keys_file="keys.toml"))) == []


def test_pods_come_later_so_their_names_are_not_known_yet() -> None:
    config = of(Tenant(name="a", reserved_endpoints=("later",)))
    assert found(config) != []
    pods = replace(config.kubernetes, selector="app=vllm")
    assert found(replace(config, kubernetes=pods)) == []
