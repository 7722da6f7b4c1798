"""docs/states.md has exactly the diagrams that the tables print."""

from tests.docs.documents import fenced, read, table_rows
from vicinal.kvindex.copies import mermaid
from vicinal.scheduler.states import State, diagram

STATES = read("docs/states.md")


def test_the_diagrams_are_what_the_tables_print() -> None:
    assert fenced(STATES, "mermaid") == [diagram(), mermaid()]


def test_each_state_of_a_request_says_what_it_reserves() -> None:
    table = STATES[STATES.index("| State |") : STATES.index("An answer that is not")]
    named = [state for row in table_rows(table)[1:] for state in row[0].split(", ")]
    assert sorted(named) == sorted(State)
