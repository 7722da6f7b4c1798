"""The line of a key, against documents whose lines are known because the test wrote them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.config.lines import line_of

VALUES = ["1", '"x = 1"', '"""\nb = 3\n[t]\n"""', "[\n 1,\n # ]\n 2,\n]", "{ q = 1 }", "'#'"]
fillers = st.lists(st.sampled_from(["", "# key = 2", "   "]), max_size=3)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["table", "array"]), st.lists(st.tuples(fillers, st.sampled_from(VALUES)))),
        max_size=4,
    )
)
def test_every_key_is_found_on_its_line(tables) -> None:
    lines: list[str] = []
    expected = {}
    arrays = 0
    for number, (kind, entries) in enumerate(tables):
        head = (f"t{number}",) if kind == "table" else ("array", arrays)
        arrays += kind == "array"
        lines.append(f"[t{number}]" if kind == "table" else "[[array]]")
        expected[head] = len(lines)
        for at, (filler, value) in enumerate(entries):
            lines += filler
            expected[(*head, f"k{at}")] = len(lines) + 1
            lines += f"k{at} = {value}".split("\n")
    text = "\n".join(lines) + "\n"
    assert {key: line_of(text, key) for key in expected} == expected


def test_what_is_not_there_has_no_line() -> None:
    text = "[a]\nb = [1, 2]\n"
    assert line_of(text, ("a", "c")) is None
    assert line_of(text, ("a", "b", 2)) is None
    assert line_of(text, ("a", 0)) is None
    assert line_of(text, ()) is None
    assert line_of(text, ("a", "b", 1)) == 2
