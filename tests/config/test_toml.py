"""What is written is read back as the same configuration, whatever is in it."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from vicinal.config.default import default_cluster
from vicinal.config.fleet import Network, Service
from vicinal.config.load import parse
from vicinal.config.toml import to_toml

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
rates = st.floats(min_value=1e-9, max_value=1e15)


@settings(deadline=None)
@given(
    names,
    st.lists(names, max_size=3, unique=True),
    st.tuples(rates, rates, rates),
    st.booleans(),
    st.integers(0, 2**63 - 1),
    st.booleans(),
)
def test_round_trip(name, service_names, figures, trust, seed, commented) -> None:
    config = default_cluster()
    config = replace(
        config,
        model=replace(config.model, name=name, tokenizer=name),
        server=replace(config.server, trust_tenant_header=trust, tenant_header=name),
        scheduler=replace(config.scheduler, seed=seed),
        network=Network(nic_gbytes_per_s=figures[0], uplinks_gbytes_per_s={"r1": figures[1], "pod1": figures[2]}),
        service=tuple(Service(name=each, tpot_objective_s=figures[0]) for each in service_names),
        endpoint=(replace(config.endpoint[2], id=name, leaf="r1", kv_tokens=None, kv_blocks=7), *config.endpoint[3:]),
    )
    assert parse(to_toml(config, commented=commented), "written", {}) == config


def test_comments_say_what_the_keys_are_for() -> None:
    text = to_toml(default_cluster(), commented=True)
    assert "# How a request is placed, and how long it may wait for its place.\n[scheduler]\n" in text
    assert (
        '# The rule that takes a row of the decision table: `name`, or `name:key=value+key=value`.\npolicy = "cost"\n'
        in text
    )
    assert text.count("# Address of its API: `http://host:port`, or https.") == 1
    assert "#" not in to_toml(default_cluster())
