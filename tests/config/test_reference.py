"""The documentation is the schema's, and every key has its place in it."""

from pathlib import Path

from msgspec.structs import fields

from vicinal.config.build import item_struct
from vicinal.config.environment import variables
from vicinal.config.fleet import Config
from vicinal.config.reference import reference
from vicinal.config.wording import meaning

DOCUMENT = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_committed_documentation_is_up_to_date() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == reference(), (
        "run: python -m vicinal.config.reference > docs/configuration.md"
    )


def test_every_key_says_what_it_is_for() -> None:
    for section in fields(Config):
        for field in fields(item_struct(section.type) or section.type):
            assert meaning(field.type).endswith("."), f"{section.name}.{field.name}"
            assert f"| `{field.name}` |" in reference()


def test_every_variable_is_in_it() -> None:
    assert len(variables()) > 30
    for variable in variables():
        assert f"`{variable}`" in reference()
