"""Every word that the code uses in the open is in the documents."""

import importlib
import inspect
import pkgutil
import re
from typing import get_args

import pytest

import vicinal.domain
from tests.docs.documents import ROOT, read, table_rows
from vicinal.domain.decision import TERMS
from vicinal.domain.outcome import Ending
from vicinal.domain.plan import Action, Leg
from vicinal.domain.verdict import Rule
from vicinal.policies.registry import POLICIES, parameters
from vicinal.scheduler.counterfactuals import counterfactuals
from vicinal.topology.graph import Level
from vicinal.workload.formats.registry import FORMATS, TraceFormat

GLOSSARY = read("docs/glossary.md")
ENTRIES = [row for row in table_rows(GLOSSARY) if len(row) == 3][1:]


def _domain_names() -> list[str]:
    """Public classes, service classes and id types of domain/."""
    names: set[str] = set()
    for module in pkgutil.iter_modules(vicinal.domain.__path__):
        loaded = importlib.import_module(f"vicinal.domain.{module.name}")
        source = inspect.getsource(loaded)
        names.update(re.findall(r"^class ([A-Z]\w*)", source, re.MULTILINE))
        names.update(re.findall(r"^([A-Z]\w*) = (?:NewType|ServiceClass)\(", source, re.MULTILINE))
    return sorted(names)


def _has_entry(word: str) -> bool:
    return any(word in re.split(r"[ ,()]+", row[0]) for row in ENTRIES)


@pytest.mark.parametrize("name", _domain_names())
def test_each_name_of_the_domain_is_in_the_glossary(name: str) -> None:
    assert _has_entry(name)


@pytest.mark.parametrize("name", [*Ending, *Action, *TERMS])
def test_each_ending_action_and_term_is_in_the_glossary(name: str) -> None:
    assert _has_entry(name) or f"`{name}`" in GLOSSARY


@pytest.mark.parametrize("level", list(Level))
def test_each_level_is_in_the_glossary_and_priced_in_cost(level: Level) -> None:
    assert _has_entry(level.label) or f"`{level.label}`" in GLOSSARY
    assert f"`{level.label}`" in read("docs/cost.md")


@pytest.mark.parametrize("rule", list(Rule))
def test_each_rule_is_in_the_glossary_and_in_explain(rule: Rule) -> None:
    assert f"rule `{rule}`" in GLOSSARY
    assert f"`{rule}`" in read("docs/explain.md")


def test_passing_rules_are_told_apart() -> None:
    cured = "`unreachable`, `circuit`, `headroom`, `sequences`, `share` and `saturated` are"
    assert cured in " ".join(read("docs/explain.md").split())
    assert {rule.value for rule in Rule if rule.passing} == set(re.findall(r"`(\w+)`", cured))


@pytest.mark.parametrize("leg", list(Leg))
def test_each_leg_is_in_explain(leg: Leg) -> None:
    assert f"leg `{leg}`" in read("docs/explain.md")


@pytest.mark.parametrize("term", TERMS)
def test_each_term_has_a_formula(term: str) -> None:
    assert any(row[0] == f"`{term}`" and len(row) == 3 and row[1] for row in table_rows(read("docs/cost.md")))


@pytest.mark.parametrize("name", list(POLICIES))
def test_each_policy_has_its_section_with_all_its_parts(name: str) -> None:
    text = read("docs/policies.md")
    assert re.search(rf"^\| `{name}`", text, re.MULTILINE)
    section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    for part in ("Intent", "Formula", "Inputs", "Missing input", "Where it breaks", "Use it"):
        assert f"**{part}" in section[1]
    for key, kind in parameters(name).items():
        values = [value for value in get_args(kind) if isinstance(value, str)]
        assert re.search(rf"^- \*\*Parameters.*`{key}`", section[1], re.MULTILINE | re.DOTALL), key
        assert all(f"`{value}`" in text for value in values)


def test_the_readme_shows_policies_that_are_there() -> None:
    table = read("README.md").partition("| Policy | In one line")[2].partition("\n\n")[0]
    shown = re.findall(r"^\| `(\w+)`", table, re.MULTILINE)
    assert len(shown) >= 7
    assert set(shown) <= set(POLICIES)


def test_no_policy_is_described_that_is_not_there() -> None:
    sections = set(re.findall(r"^## ([a-z_]+)$", read("docs/policies.md"), re.MULTILINE))
    assert sections == set(POLICIES)


@pytest.mark.parametrize("trace_format", list(TraceFormat))
def test_each_trace_format_is_in_workloads_with_its_fields_and_block_size(trace_format: TraceFormat) -> None:
    form = FORMATS[trace_format]
    (row,) = [row for row in table_rows(read("docs/workloads.md")) if row[0] == f"`{trace_format}`"]
    assert row[1].startswith(form.kind.split()[0]) or trace_format is TraceFormat.VICINAL
    assert all(field in row[1] for field in form.fields) or trace_format is TraceFormat.VICINAL
    if form.block_tokens:
        assert row[2].startswith(f"{form.block_tokens:,} tokens")
    assert f"- **{trace_format}**:" in read("docs/workloads.md") or trace_format is TraceFormat.VTC


def test_each_counterfactual_is_in_explain() -> None:
    named = set(re.findall(r'\("([a-z_]+)", ', inspect.getsource(importlib.import_module(counterfactuals.__module__))))
    assert len(named) >= 6
    assert named <= set(re.findall(r"^\| `(\w+)` \|", read("docs/explain.md"), re.MULTILINE))


def test_the_glossary_is_sorted_and_each_file_exists() -> None:
    words = [row[0].lower() for row in ENTRIES]
    assert words == sorted(words)
    assert len(set(words)) == len(words)
    for word, _, file in ENTRIES:
        found = re.fullmatch(r"\[`(\S+)`\]\(\.\./src/vicinal/(\S+)\)", file)
        assert found is not None, word
        assert found[1] == found[2]


@pytest.mark.parametrize("name", _domain_names())
def test_a_name_of_the_domain_is_defined_where_the_glossary_says(name: str) -> None:
    for word, _, file in ENTRIES:
        if name == word.split(" ")[0]:
            path = re.search(r"\(\.\./(\S+)\)", file)
            assert path is not None
            assert re.search(rf"^(class )?{name}\b", (ROOT / path[1]).read_text(encoding="utf-8"), re.MULTILINE)
