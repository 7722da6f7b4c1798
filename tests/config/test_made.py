"""Clusters made from words."""

from collections import Counter

import pytest

from vicinal.config.checks import findings
from vicinal.config.cluster import endpoints
from vicinal.config.default import default_cluster
from vicinal.config.made import PRESETS, MadeClusterError, made_cluster
from vicinal.domain.endpoint import Role
from vicinal.enginemodel.profiles import NAMES, UnknownProfileError


@pytest.mark.parametrize("words", [*PRESETS, "racks=3,pods=2,prefill=1,decode=2,both=1", "default:racks=1"])
def test_made_clusters_are_possible(words):
    assert not list(findings(made_cluster(words)))


def test_the_default_one_is_the_default_cluster():
    made, real = made_cluster("default"), default_cluster()
    assert [(e.id, e.role, e.placement, e.kv_blocks, e.nic_bytes_per_s) for e in endpoints(made)] == [
        (e.id, e.role, e.placement, e.kv_blocks, e.nic_bytes_per_s) for e in endpoints(real)
    ]
    assert made.network == real.network


def test_racks_have_equal_shares_and_are_dealt_to_pods():
    fleet = endpoints(made_cluster("racks=4,pods=2,prefill=1,decode=2"))
    assert Counter(e.role for e in fleet) == {Role.PREFILL: 4, Role.DECODE: 8}
    assert {(e.placement.leaf, e.placement.pod) for e in fleet} == {
        ("r1", "pod1"),
        ("r2", "pod2"),
        ("r3", "pod1"),
        ("r4", "pod2"),
    }


def test_smaller_numbers_in_the_cache_are_half_the_bytes():
    full, half = (made_cluster(f"kv_bits={bits}").model.kv_bytes_per_token for bits in (16, 8))
    assert full == 2 * half == 327_680


def test_keys_beside_the_words_go_first():
    assert made_cluster("racks=2", {"racks": "5"}).endpoint[-1].leaf == "r5"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("defualt", "no cluster is called 'defualt'; did you mean \"default\"?"),
        ("rakcs=3", "a made cluster has no 'rakcs'; did you mean \"racks\"?"),
        ("racks=many", "cluster: Expected `int`, got `str` - at `$.racks`"),
        ("racks=0", "cluster: Expected `int` >= 1"),
        ("racks", "no cluster is called 'racks'"),
        ("default:racks", "'racks' says nothing about a cluster: write key=value"),
        ("decode=0", "nobody decodes in this cluster"),
        ("prefill=0", "has nobody to hand over from"),
    ],
)
def test_words_that_make_no_cluster_are_named(words, said):
    with pytest.raises(MadeClusterError) as caught:
        made_cluster(words)
    assert said in str(caught.value)


def test_an_unknown_profile_is_named():
    with pytest.raises(UnknownProfileError):
        made_cluster("profile=llama-h100")
    assert made_cluster(f"profile={NAMES[0]}").model.profile == NAMES[0]


def test_racks_are_dealt_to_models():
    fleet = endpoints(made_cluster("racks=3,models=chat/reasoning"))
    assert {(e.placement.leaf, e.model) for e in fleet} == {("r1", "chat"), ("r2", "reasoning"), ("r3", "chat")}
