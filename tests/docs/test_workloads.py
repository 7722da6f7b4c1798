"""docs/workloads.md has every made workload, with all its parameters and their defaults as they are written."""

import re

import pytest

from tests.docs.documents import read, table_rows
from vicinal.workload.generators import GENERATORS
from vicinal.workload.parameters import in_words

MADE = read("docs/workloads.md").split("## Made workloads")[1]


def _section(name: str) -> str:
    return MADE.split(f"\n### {name}\n")[1].split("\n### ")[0]


def test_each_made_workload_has_its_section() -> None:
    assert re.findall(r"^### (\w+)$", MADE, re.MULTILINE) == list(GENERATORS)


@pytest.mark.parametrize("name", [name for name in GENERATORS if name != "conversation_closed"])
def test_each_parameter_is_there_with_its_default(name: str) -> None:
    shape = GENERATORS[name].shape
    rows = [row for row in table_rows(_section(name)) if row[0] != "Parameter"]
    assert [row[:2] for row in rows] == [
        [f"`{key}`", f"`{in_words(getattr(shape(), key))}`"] for key in shape.__dataclass_fields__
    ]
    assert all(len(row) == 4 and all(row) for row in rows)


def test_closed_conversations_have_the_parameters_of_open_ones() -> None:
    assert GENERATORS["conversation_closed"].shape is GENERATORS["conversation"].shape
