"""docs/outcomes.md is what the closed lists say, and the lists agree with each other."""

import pytest

from tests.docs.documents import read, table_rows
from vicinal.domain.outcome import Ending, Fault, Meaning
from vicinal.gateway.codes import ErrorCode
from vicinal.gateway.outcomes import page
from vicinal.gateway.refusals import RefusalKind

MEANINGS: list[Meaning] = [
    *(ending.meaning for ending in Ending),
    *(code.meaning for code in ErrorCode),
    *(meaning for kind in RefusalKind if (meaning := kind.meaning) is not None),
]


def test_the_page_is_in_step() -> None:
    assert read("docs/outcomes.md") == page(), "run: python -m vicinal.gateway.outcomes > docs/outcomes.md"


def test_one_code_has_one_meaning() -> None:
    codes = [*Ending, *ErrorCode, *RefusalKind]
    assert len({code.value for code in codes}) == len(codes)
    shown = [row[0].strip("`") for row in table_rows(page())]
    assert [code for code in shown if code in {code.value for code in codes}] == codes


@pytest.mark.parametrize("ending", list(Ending))
def test_the_glossary_says_the_same(ending: Ending) -> None:
    (row,) = [row for row in table_rows(read("docs/glossary.md")) if ending in row[0].lower().split(", ")]
    if ending is Ending.TOO_LONG:  # shares its row with the rule of that name
        assert f"ending `{ending}` ({ending.http_status})" in row[1]
    else:
        assert row[1] == f"ending: {ending.meaning.text} ({ending.http_status})"


def test_what_may_succeed_later_says_so_by_its_status_too() -> None:
    """Clients that know nothing of vicinal go by the status: 429, 502 and 503 are what they try again."""
    assert all(meaning.again == (meaning.status in (429, 502, 503)) for meaning in MEANINGS)


def test_whose_doing_it_is_agrees_with_the_status() -> None:
    for meaning in MEANINGS:
        if meaning.fault is Fault.CLIENT:
            assert 400 <= meaning.status < 500 or meaning.status in (501, 505)
        elif meaning.fault is Fault.NOBODY:
            assert meaning.status == 200
        elif meaning.fault is Fault.TENANT:
            assert meaning.status == 429
        else:
            assert meaning.status in (429, 499) or meaning.status >= 500


def test_an_ending_is_of_one_sort() -> None:
    sorts = {ending: (ending.refused, ending.failed, not ending.answered_by_core) for ending in Ending}
    assert all(sum(sort) == 1 for sort in sorts.values())
    assert [ending for ending in Ending if ending.failed] == [Ending.ENGINE_FAILED, Ending.STREAM_BROKEN]
    gone = [ending for ending in Ending if not ending.answered_by_core]
    assert gone == [Ending.DONE, Ending.CANCELLED, Ending.ORPHANED]
