"""Bodies in the making: short ones whole, long ones in pieces, all long ones together within a bound."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.engines.long_body import Pieces
from vicinal.gateway.body_pieces import BodyPieces, LongBodies

KIB = 1024


def gathered(room: LongBodies, size: int, step: int) -> bytes | Pieces | None:
    body = BodyPieces(room)
    for at in range(0, size, step):
        if body.add(b"x" * min(step, size - at)) is not None:
            return None
    return body.whole()


@given(st.lists(st.binary(min_size=1, max_size=40) | st.integers(1, 40_000).map(lambda n: b"y" * n), max_size=30))
def test_what_was_added_comes_out(parts) -> None:
    body = BodyPieces(LongBodies(30_000, 10**9))
    assert all(body.add(part) is None for part in parts)
    whole = body.whole()
    told = b"".join(parts)
    assert (whole.joined() if isinstance(whole, Pieces) else whole) == told
    assert isinstance(whole, Pieces) == (len(told) > 30_000)


def test_a_body_in_crumbs_takes_little_more_than_its_size() -> None:
    whole = gathered(LongBodies(KIB, 10**9), 1000 * KIB, 1)
    assert isinstance(whole, Pieces)
    assert sum(sys.getsizeof(part) for part in whole.parts) < 1.1 * 1000 * KIB
    assert len(whole.parts) < 20


def test_long_bodies_are_counted_as_long_as_somebody_has_them() -> None:
    room = LongBodies(KIB, 100 * KIB)
    first = gathered(room, 40 * KIB, 8 * KIB)
    assert isinstance(first, Pieces)
    assert room.held_bytes == 40 * KIB
    hold = first.hold
    del first
    assert room.held_bytes == 40 * KIB  # somebody else still has what was made of it
    del hold
    assert room.held_bytes == 0


def test_a_body_that_never_becomes_whole_is_forgotten() -> None:
    room = LongBodies(KIB, 100 * KIB)
    body = BodyPieces(room)
    assert body.add(b"x" * 30 * KIB) is None
    assert room.held_bytes == 30 * KIB
    del body
    assert room.held_bytes == 0


def test_one_body_gets_at_most_half_of_what_is_free_so_shorter_ones_find_room() -> None:
    room = LongBodies(KIB, 100 * KIB)
    kept = [gathered(room, 50 * KIB, 10 * KIB)]
    assert kept[0] is not None
    assert gathered(room, 26 * KIB, 13 * KIB) is None
    kept.append(gathered(room, 25 * KIB, 25 * KIB))
    kept.append(gathered(room, 12 * KIB, 12 * KIB))
    assert all(kept)
    assert room.held_bytes == 87 * KIB


def test_short_bodies_need_no_room() -> None:
    room = LongBodies(64 * KIB, 0)
    assert gathered(room, 64 * KIB, KIB) == b"x" * 64 * KIB
    assert gathered(room, 64 * KIB + 1, KIB) is None


@pytest.mark.mission("B12")
@given(st.lists(st.tuples(st.integers(1, 40 * KIB), st.integers(0, 2)), max_size=40))
def test_the_bound_holds_whatever_comes_and_goes(steps) -> None:
    room, kept = LongBodies(KIB, 100 * KIB), []
    for size, leave in steps:
        kept.append(gathered(room, size, 7 * KIB))
        del kept[:leave]
        held = sum(body.size_bytes for body in kept if isinstance(body, Pieces))
        assert room.held_bytes == held <= room.room_bytes
