"""How long to wait after failures in a row."""

_DOUBLINGS_MAX = 64


def doubled(first: float, times: int, most: float) -> float:
    """`first` doubled `times` times, but `most` at most.

    For any number of failures: an engine may be gone for days, and a power of two overflows after 1,023 of them.
    """
    return min(most, first * 2.0 ** min(times, _DOUBLINGS_MAX))
