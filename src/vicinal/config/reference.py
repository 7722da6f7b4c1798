"""docs/configuration.md, made from the schema: `python -m vicinal.config.reference > docs/configuration.md`."""

import sys
from collections.abc import Iterator

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from vicinal.config.build import item_struct
from vicinal.config.environment import variables
from vicinal.config.fleet import Config
from vicinal.config.toml import scalar
from vicinal.config.wording import meaning, type_text

_INTRODUCTION = """\
# Configuration

One TOML file says everything. It is read strictly: an unknown section or key, a wrong type and a cluster that cannot
be are refused at start, with the line, what was expected and the nearest known key. Keys without a default are needed.

A key of a section (not of an array of tables, `[[…]]`) can be set from the environment, which then wins over the file:
`VICINAL_SERVER__PORT=9000` is `port = 9000` in `[server]`. An unknown `VICINAL_…__…` variable is refused too.

`to_toml(default_cluster(), commented=True)` (vicinal.config) writes a complete file to start from: the embedded cluster
of `vicinal up`.

This file is made from the schema by `python -m vicinal.config.reference`; edit the schema, not this file.
"""


def reference() -> str:
    """Every section and key, its type, limits, default, variable and meaning, as Markdown."""
    return "\n".join([_INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    named = {key: variable for variable, key in variables().items()}
    for section in fields(Config):
        item = item_struct(section.type)
        schema: type[Struct] = item or section.type
        yield f"## `[[{section.name}]]`, one per {section.name}\n" if item else f"## `[{section.name}]`\n"
        yield " ".join((schema.__doc__ or "").split()) + "\n"
        variable = "" if item else " | Variable"
        yield f"| Key | Type | Default | Meaning{variable} |"
        yield "|---|---|---|---|" + ("" if item else "---|")
        for field in fields(schema):
            cells = [f"`{field.name}`", type_text(field.type), _default(field), meaning(field.type)]
            if not item:
                at = named.get((section.name, field.name))
                cells.append(f"`{at}`" if at else "none")
            yield f"| {' | '.join(cells)} |"
        yield ""


def _default(field: FieldInfo) -> str:
    if field.required:
        return "**needed**"
    if field.default is NODEFAULT:
        return "empty"
    return "not set" if field.default is None else f"`{scalar(field.default)}`"


if __name__ == "__main__":
    sys.stdout.write(reference())
