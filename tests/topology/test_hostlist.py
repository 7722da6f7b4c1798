"""Hostlists, by the examples of Slurm's manual and as what `scontrol show hostlist` would make of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.topology.hostlist import NAMES_MAX, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login", ["login"]),
        ("a,b-1,c.example.org", ["a", "b-1", "c.example.org"]),
        ("tux[0-3,12,18-20]", ["tux0", "tux1", "tux2", "tux3", "tux12", "tux18", "tux19", "tux20"]),
        ("n[08-10]", ["n08", "n09", "n10"]),
        ("n[8-10,003]", ["n8", "n9", "n10", "n003"]),
        ("h[1-2]-ib[0,3],x", ["h1-ib0", "h1-ib3", "h2-ib0", "h2-ib3", "x"]),
        ("[1-2]u", ["1u", "2u"]),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert expand(text) == names


@given(st.integers(0, 10_000), st.integers(0, 50), st.sampled_from([0, 6]), st.sampled_from(["", "-ib0"]))
def test_a_range_is_its_numbers_in_order(first: int, more: int, digits: int, suffix: str) -> None:
    words = [f"{number:0{digits}}" for number in range(first, first + more + 1)]
    assert expand(f"h[{words[0]}-{words[-1]}]{suffix}") == [f"h{word}{suffix}" for word in words]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", '"" is no hostlist'),
        ("a,,b", '"" is no hostlist'),
        ("h[1-3", r'"h\[1-3" is no hostlist'),
        ("h1-3]", r'"h1-3\]" is no hostlist'),
        ("h[]", r'"\[\]" is no range; expected numbers and ranges'),
        ("h[1-b]", r'"\[1-b\]" is no range'),
        ("h[1--3]", r'"\[1--3\]" is no range'),
        ("h[5-3]", "runs backwards: 3 is below 5"),
        ("h[0-99999999999]", f"more than {NAMES_MAX} names"),
        ("h[0-999][0-999]", f"more than {NAMES_MAX} names"),
        ("a[0-40000],b[0-40000]", f"more than {NAMES_MAX} names"),
    ],
)
def test_what_is_no_hostlist_is_refused(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        expand(text)
