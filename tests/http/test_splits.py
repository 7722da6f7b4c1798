"""Any cut of the same bytes gives the same: requests and refusals of a client, the answer of an engine."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.http.answers import ANSWERS
from tests.http.cases import BOUNDS, CASES
from tests.http.streams import answer_of, cut, requests_of, second_opinion

_SENT = [case.sent for case in CASES]
_BYTES = [
    b"\r",
    b"\n",
    b"\r\n",
    b"\0",
    b" ",
    b"\t",
    b":",
    b";",
    b",",
    b"0",
    b"5",
    b"\xff",
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
]


@st.composite
def _damaged(draw: st.DrawFn, whole: list[bytes]) -> bytes:
    """Some of these one after the other, as they are or with bytes put in, taken out or changed."""
    stream = b"".join(draw(st.lists(st.sampled_from(whole), min_size=1, max_size=4)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(stream)))
        gone = draw(st.integers(0, 3))
        stream = stream[:at] + draw(st.sampled_from([b"", *_BYTES])) + stream[at + gone :]
    return stream


@st.composite
def _cut_twice(draw: st.DrawFn, whole: list[bytes]) -> tuple[bytes, list[int]]:
    stream = draw(_damaged(whole))
    if draw(st.booleans()):
        return stream, list(range(len(stream)))
    return stream, draw(st.lists(st.integers(0, len(stream)), max_size=12))


@settings(max_examples=1500, deadline=None)
@given(_cut_twice(_SENT))
@example((b"\r\n\r\nGET", [0, 1, 2, 3, 4]))
def test_any_cut_of_a_clients_bytes_gives_the_same_requests_and_refusals(case: tuple[bytes, list[int]]) -> None:
    stream, cuts = case
    whole = requests_of([stream], BOUNDS)
    assert requests_of(cut(stream, cuts), BOUNDS) == whole
    second_opinion(stream, whole)


@settings(max_examples=600, deadline=None)
@given(_cut_twice(ANSWERS), st.booleans())
def test_any_cut_of_an_engines_bytes_gives_the_same_answer(case: tuple[bytes, list[int]], ends: bool) -> None:
    stream, cuts = case
    whole, torn = (answer_of(pieces, BOUNDS, ends=ends) for pieces in ([stream], cut(stream, cuts)))
    if (
        whole.broken or torn.broken
    ):  # how much was passed on before the fault depends on the cut; that it fails does not
        assert whole.broken is torn.broken
    else:
        assert torn == whole


def test_the_property_sees_a_difference() -> None:
    """Two streams that differ in one byte come to different requests."""
    assert requests_of([_SENT[0]], BOUNDS) != requests_of([_SENT[0].replace(b"/x", b"/y")], BOUNDS)
