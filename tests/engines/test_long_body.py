"""Splicing of bodies in pieces does what splicing of bodies in one piece does."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.engines.long_body import LongBody, Pieces, in_pieces
from vicinal.engines.splicing import spliced
from vicinal.gateway.reading.process import places

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.integers(2000, 4500).map(lambda n: "ab" * n),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(["model", "prompt", "stream", "n", "stream_options", 'odd "name"', "名"])
_CHANGES = st.dictionaries(_NAMES, _VALUES.map(lambda value: json.dumps(value).encode()), max_size=3)


@st.composite
def objects(draw) -> bytes:
    """JSON objects as clients may write them: any white space, names that come twice."""
    gap = draw(st.sampled_from(["", " ", "\n\t "]))
    fields = draw(st.lists(st.tuples(_NAMES, _VALUES, st.booleans()), max_size=6))
    told = [
        f"{gap}{json.dumps(name, ensure_ascii=plain)}{gap}:{gap}{json.dumps(value, ensure_ascii=plain)}{gap}"
        for name, value, plain in fields
    ]
    return f"{gap}{{{gap}{','.join(told)}}}{gap}".encode()


@st.composite
def cut(draw, body: bytes) -> Pieces:
    ends = sorted(draw(st.lists(st.integers(0, len(body)), max_size=8)))
    begins = [0, *ends]
    parts = [body[begin:end] for begin, end in zip(begins, [*ends, len(body)], strict=True)]
    return Pieces(tuple(part for part in parts if part), len(body))


@given(st.data())
@pytest.mark.mission("B11")
def test_pieces_are_spliced_as_the_whole_is(data) -> None:
    body = data.draw(objects())
    long = LongBody(data.draw(cut(body)), places(body))
    for _ in range(2):  # what was spliced once can be spliced again
        changes, replaced = data.draw(_CHANGES), data.draw(_CHANGES)
        drop = data.draw(st.sets(_NAMES, max_size=2))
        body = spliced(body, changes, drop, replaced)
        long = spliced(long, changes, drop, replaced)
        assert long.pieces.joined() == body
        assert long.pieces.size_bytes == len(body)
        assert dict(long.places) == places(body)


@given(st.data())
def test_any_stretch_is_cut_wherever_the_pieces_end(data) -> None:
    body = data.draw(st.binary(max_size=50))
    pieces = data.draw(cut(body))
    begin = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(begin, len(body)))
    assert b"".join(pieces.cut([(begin, end)])) == body[begin:end]


@pytest.mark.parametrize("stretch", [(-1, 0), (0, 5), (3, 2)])
def test_a_stretch_that_is_not_there_is_an_error(stretch) -> None:
    with pytest.raises(ValueError, match="of 4"):
        Pieces((b"ab", b"cd"), 4).cut([stretch])


def test_a_body_in_one_piece_is_cut_without_loss() -> None:
    body = bytes(range(256)) * 1000
    assert in_pieces(body).joined() == body
    assert len(in_pieces(body).parts) > 1


def test_what_holds_a_body_lives_as_long_as_what_was_made_of_it() -> None:
    hold = object()
    body = b'{"a":1}'
    assert LongBody(Pieces((body,), len(body), hold), places(body)).spliced({"b": b"2"}).pieces.hold is hold
