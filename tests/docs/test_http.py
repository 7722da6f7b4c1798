"""docs/http.md against the cases that the server is tested with, and against its bounds."""

from tests.http.cases import CASES
from tests.http.table import PAGE, placed
from vicinal.gateway.engine_faults import EngineFault
from vicinal.gateway.refusals import RefusalKind


def test_the_table_of_malformed_requests_is_that_of_the_cases() -> None:
    page = PAGE.read_text()
    assert placed(page) == page, "python -m tests.http.table"


def test_every_fault_of_an_engine_is_explained() -> None:
    page = PAGE.read_text().partition("## Malformed requests")[0]
    assert [kind for kind in EngineFault if f"`{kind}`" not in page] == []


def test_every_answered_kind_has_a_case_or_is_one_of_time() -> None:
    answered = {kind for kind in RefusalKind if kind.meaning is not None}
    slow = {RefusalKind.HEAD_TOO_SLOW, RefusalKind.BODY_TOO_SLOW}
    assert {case.kind for case in CASES if case.kind} == answered - slow
