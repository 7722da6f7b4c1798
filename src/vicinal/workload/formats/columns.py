"""CSV files as rows of the columns that are asked for, and their cells as numbers."""

import csv
import math
from collections.abc import Iterator, Sequence

from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow


def csv_rows(lines: Lines, columns: Sequence[str], optional: Sequence[str] = ()) -> Iterator[list[str]]:
    """The cells of `columns`, then of `optional`, of each row under the header; "" for an optional one that the file
    lacks. Raises BadRow for a row that is shorter or longer than the header, and ValueError without a column."""
    rows = csv.reader(_text(lines))
    try:
        header = [name.strip() for name in next(rows)]
        places = [header.index(name) for name in columns]
        more = [header.index(name) if name in header else None for name in optional]
        for cells in rows:
            if len(cells) != len(header):
                raise BadRow(f"{len(cells)} columns where the header has {len(header)}")
            yield [*(cells[place] for place in places), *("" if p is None else cells[p] for p in more)]
    except csv.Error as error:
        raise BadRow(f"not CSV: {error}") from None


def whole_number(name: str, cell: str) -> int:
    """A cell that counts something; "7.0" counts 7. Raises BadRow."""
    try:
        return int(cell)
    except ValueError:
        value = number(name, cell)
    if not value.is_integer():
        raise BadRow(f"{name} is {cell!r}, expected a whole number")
    return int(value)


def number(name: str, cell: str) -> float:
    """A finite number. Raises BadRow."""
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRow(f"{name} is {cell!r}, expected a number")
    return value


def _text(lines: Lines) -> Iterator[str]:
    for line in lines:
        try:
            yield line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise BadRow(f"not UTF-8 text: {error}") from None
