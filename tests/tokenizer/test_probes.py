"""Probes and what their differences mean."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizer.test_template import TINY
from vicinal.tokenizer.kinds import PromptKind
from vicinal.tokenizer.probes import PROBES, difference
from vicinal.tokenizer.tokenizer import Tokenizer

IDS = st.lists(st.integers(0, 50), max_size=12)
BY_KIND = {kind: next(probe for probe in PROBES if probe.kind is kind) for kind in PromptKind}


@given(ours=IDS, theirs=IDS, kind=st.sampled_from(PromptKind))
def test_a_difference_is_where_the_ids_part(ours: list[int], theirs: list[int], kind: PromptKind) -> None:
    found = difference(BY_KIND[kind], ours, theirs)
    assert (found is None) == (ours == theirs)
    if found is not None:
        assert ours[: found.position] == theirs[: found.position]
        assert ours[found.position : found.position + 1] != theirs[found.position : found.position + 1]
        assert (found.ours, found.theirs) == tuple(
            ids[found.position] if found.position < len(ids) else None for ids in (ours, theirs)
        )
        assert f"token {found.position}" in found.words()


@pytest.mark.parametrize(
    ("kind", "theirs", "likely"),
    [
        (PromptKind.PLAIN, [1, 5, 6, 7], "puts one token more in front, as a BOS"),
        (PromptKind.CHAT, [5, 5, 6, 7], "chat template has put there already"),
        (PromptKind.PLAIN, [6, 7], "one token too many in front here"),
        (PromptKind.PLAIN, [5, 6, 7, 2], "adds one token at the end"),
        (PromptKind.PLAIN, [5, 9, 7], "another vocabulary"),
        (PromptKind.CHAT, [5, 9, 7], "another chat template"),
        (PromptKind.TOOLS, [5, 9, 7], "tools are rendered differently"),
    ],
)
def test_the_likely_cause(kind: PromptKind, theirs: list[int], likely: str) -> None:
    found = difference(BY_KIND[kind], [5, 6, 7], theirs)
    assert found is not None
    assert likely in found.likely


def test_every_kind_has_a_probe_that_the_packaged_model_takes() -> None:
    tokenizer = Tokenizer.load(TINY)
    for probe in PROBES:
        assert len(probe.ids(tokenizer)) > 3
    assert {probe.kind for probe in PROBES} == set(PromptKind)
