"""Policies from words: parameters, and what a wrong one is answered with."""

import dataclasses
from typing import Any

import pytest

from vicinal.contracts.words import UnknownWordError
from vicinal.policies.loads import MEASURES
from vicinal.policies.registry import POLICIES, parameters, policy


def test_parameters_are_set() -> None:
    made: Any = policy("power_of_two:by=hbm+bias=2.5+candidates=3")
    assert (made.by, made.bias, made.candidates, made.fresh_s) == ("hbm", 2.5, 3, 2.0)
    assert made.name == "power_of_two:by=hbm+bias=2.5+candidates=3"


def test_a_number_may_have_a_plus() -> None:
    made: Any = policy("weighted_score:queue=1e+2+hops=0.5")
    assert (made.queue, made.hops) == (100.0, 0.5)


@pytest.mark.parametrize("name", POLICIES)
def test_every_parameter_has_a_default_of_its_own_kind(name: str) -> None:
    made: Any = policy(name)
    assert dataclasses.is_dataclass(made)
    for key in parameters(name):
        if (value := getattr(made, key)) != float("inf"):
            again: Any = policy(f"{name}:{key}={value}")
            assert getattr(again, key) == value


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("least_loaded:by=queues", "'queues' is none of tokens|requests|queue|sequences|"),
        ("least_loaded:buy=queue", "has no parameter 'buy=queue'. Did you mean 'by'? Known: by=tokens|"),
        ("least_loaded:by", "has no parameter 'by'"),
        ("least_loaded:", "has no parameter ''"),
        ("least_loaded:by=queue+by=hbm", "'by' of policy 'least_loaded' is given twice"),
        ("random:prices=off", "policy 'random' has no parameter 'prices=off'. It has none"),
        ("power_of_two:bias=-1", "parameter 'bias' of policy 'power_of_two': Expected `float` >= 0.0"),
        ("power_of_two:bias=much", "parameter 'bias' of policy 'power_of_two': Expected `float`, got `str`"),
        ("power_of_two:bias=inf", "Expected a finite number, got inf"),
        ("power_of_two:candidates=1.5", "parameter 'candidates'"),
        ("power_of_two:bias=1+candidates=two", "parameter 'candidates'"),
        ("power_of_two:_turn=1", "has no parameter '_turn=1'"),
        ("power_of_two:name=x", "has no parameter 'name=x'"),
        ("least_loadet:by=queue", "unknown policy 'least_loadet'. Did you mean 'least_loaded'?"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(UnknownWordError) as caught:
        policy(text)
    assert words in str(caught.value)


def test_the_measures_are_the_missions() -> None:
    """Requests, queue length, utilisation, HBM, decoding sequences, predicted remaining tokens."""
    assert {"requests", "queue", "utilisation", "hbm", "sequences", "tokens"} < set(MEASURES)
