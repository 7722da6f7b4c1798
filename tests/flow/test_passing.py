"""Who went before a request that waited, against a list of all turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import request
from vicinal.domain.band import Band
from vicinal.domain.passed_by import PassedBy
from vicinal.domain.request import Request, ServiceClass
from vicinal.flow.passing import Passing

BANDS = (Band.INTERACTIVE, Band.BATCH, Band.BACKGROUND)


def of(name: str, band: Band, tenant: str, model: str) -> Request:
    return request(name, 16, service=ServiceClass(band.value, band=band), tenant=tenant, model=model)


def passed(waiting: Request, turns: list[Request]) -> PassedBy:
    """What is said of it when one looks at each turn."""
    same = [each for each in turns if each.model == waiting.model]
    band = [each for each in same if each.band is waiting.band]
    own = sum(each.tenant == waiting.tenant for each in band)
    higher = sum(each.band.rank < waiting.band.rank for each in same)
    return PassedBy(higher, len(same) - len(band) - higher, len(band) - own, own)


steps = st.lists(
    st.tuples(
        st.sampled_from(["waits", "goes", "gives up", "never waited"]),
        st.sampled_from(BANDS),
        st.sampled_from("ab"),
        st.sampled_from("mn"),
        st.integers(0, 30),
    ),
    max_size=60,
)


@pytest.mark.mission("B5")
@given(steps)
def test_each_is_told_exactly_whose_turns_went_before(moves) -> None:
    passing = Passing()
    since: dict[str, tuple[Request, list[Request]]] = {}
    for number, (move, band, tenant, model, which) in enumerate(moves):
        made = of(f"r{number}", band, tenant, model)
        if move == "waits":
            passing.waits(made)
            since[made.id] = (made, [])
            continue
        if move == "never waited":
            assert passing.leaves(made) is None
            turn = made
        elif since:
            turn, turns = since.pop(sorted(since)[which % len(since)])
            assert passing.leaves(turn) == passed(turn, turns)
            if move == "gives up":
                continue
        else:
            continue
        passing.had_turn(turn)
        for _, turns in since.values():
            turns.append(turn)
        assert len(passing) == len(since)
    for waiting, turns in since.values():
        assert passing.leaves(waiting) == passed(waiting, turns)
    assert passing == Passing(), "nothing is remembered once nobody waits"
