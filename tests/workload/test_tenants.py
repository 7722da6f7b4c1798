"""Sources of a tenants workload: what one sends does not depend on who is beside it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workload.made import VOCABULARY, mean_is, names, seen_share
from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError
from vicinal.workload.generators import read_name
from vicinal.workload.tenants import Shape, tenants

SECONDS = 60.0


def of(arrivals: list[Arrival], source: int) -> list[Arrival]:
    return [arrival for arrival in arrivals if (arrival.session or "").split("-")[1] == str(source)]


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 1000),
    others=st.lists(st.tuples(st.sampled_from("abc"), st.floats(0.1, 20.0), st.integers(1, 9000)), max_size=4),
)
def test_a_source_is_the_same_whoever_is_beside_it(seed, others):
    alone = list(tenants(VOCABULARY, seed=seed, duration_s=SECONDS, shape=Shape(("a",), rates=(3.0,), prefixes=(4,))))
    shape = Shape(
        ("a", *(name for name, _, _ in others)),
        rates=(3.0, *(rate for _, rate, _ in others)),
        text_tokens=(2048, *(tokens for _, _, tokens in others)),
        prefixes=(4,),
    )
    together = list(tenants(VOCABULARY, seed=seed, duration_s=SECONDS, shape=shape))
    assert of(together, 0) == alone
    assert len({arrival.session for arrival in together}) == len(together)


def test_a_source_keeps_its_window_its_kind_and_its_lengths():
    shape = Shape(
        ("a", "b", "b"),
        services=("interactive", "batch", "batch"),
        rates=(5.0, 2.0, 20.0),
        text_tokens=(100, 200, 64_000),
        text_sigma=(0.0, 0.0, 0.3),
        output_sigma=(0.0,),
        from_s=(0.0, 0.0, 30.0),
        for_s=(0.0, 0.0, 20.0),
        tokens_most=70_000,
    )
    arrivals = list(tenants(VOCABULARY, seed=1, duration_s=SECONDS, shape=shape))
    flood = of(arrivals, 2)
    assert 30.0 < flood[0].at_s <= flood[-1].at_s < 50.0
    assert max(arrival.prompt_tokens for arrival in flood) == 70_000
    assert {(a.tenant, a.service, a.prompt_tokens, a.output_tokens) for a in of(arrivals, 1)} == {
        ("b", "batch", 200, 128)
    }
    assert {arrival.tenant for arrival in flood} == {"b"}
    assert abs(len(flood) - 400) < 5 * 20
    assert max(arrival.at_s for arrival in of(arrivals, 0)) > 58.0


def test_sources_of_one_name_share_its_prefixes_and_others_have_their_own():
    shape = Shape(("a", "b", "b"), prefixes=(8,), prefix_tokens=(1600,), text_tokens=(160,), text_sigma=(0.0,))
    arrivals = list(tenants(VOCABULARY, count=3000, shape=shape))
    firsts = [{names(arrival)[0] for arrival in of(arrivals, source)} for source in range(3)]
    assert firsts[1] == firsts[2]
    assert not firsts[0] & firsts[1]
    assert seen_share(arrivals) == pytest.approx(1600 / 1760, abs=0.01)
    assert mean_is([float(arrival.output_tokens) for arrival in arrivals], 128 * 1.1331)  # e^(sigma²/2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("names=a/b/c,rates=1/2", "rates must have one entry, or 3 like names, not 2"),
        ("rates=1/0", "rates must be positive"),
        ("names=a//b", "expected names with slashes"),
        ("rates=1/fast", "expected numbers with slashes"),
        ("for_s=-1", "for_s must be at least 0"),
        ("prefixes=9999", "prefixes must be at most 1024, not 9999"),
    ],
)
def test_words_that_make_no_sources(words, said):
    with pytest.raises(ParameterError, match=said):
        read_name(f"tenants:{words}")
