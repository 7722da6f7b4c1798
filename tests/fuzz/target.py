"""What a fuzzer calls with any bytes: nothing may be raised but what says that the bytes are wrong.

The first byte of the input says who speaks (a client, or an engine), the second how the rest is cut. Checked are that
every cut comes to the same, and that httptools, asked for a second opinion, sees no other request than we do.
"""

from tests.http.cases import BOUNDS
from tests.http.streams import answer_of, requests_of, second_opinion


def check(data: bytes) -> None:
    """Raises AssertionError, or whatever escapes."""
    if len(data) < 2:
        return
    speaker, size, stream = data[0], data[1] % 64 + 1, data[2:]
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    if speaker % 4:
        whole = requests_of([stream], BOUNDS)
        assert requests_of(pieces, BOUNDS) == whole
        second_opinion(stream, whole)
    else:
        ends = bool(speaker & 4)
        one, other = answer_of([stream], BOUNDS, ends=ends), answer_of(pieces, BOUNDS, ends=ends)
        assert one.broken is other.broken
        assert one.broken or one == other
