"""Azure's LLM inference traces: CSV of TIMESTAMP, ContextTokens, GeneratedTokens. Lengths only: prompts share nothing.

Source: AzurePublicDataset; 2023 (Splitwise, Patel et al., ISCA'24) and 2024 (DynamoLLM, Stojkovic et al., HPCA'25). Of
the same columns the stamps differ: in 2023 with seven decimals and no zone (`2023-11-16 18:17:03.9799600`), in 2024
with `+00:00`, and with or without decimals in one file. A stamp without a zone is taken as UTC; what is below a
microsecond is dropped.
"""

from collections.abc import Iterator
from datetime import UTC, datetime

from vicinal.workload.formats.columns import csv_rows, whole_number
from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, Format, Kind, Row, Skipped, left_out, private

_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")


def _read(lines: Lines, _: int) -> Iterator[Row | Skipped]:
    for stamp, context, generated in csv_rows(lines, _COLUMNS):
        prompt_tokens, output_tokens = whole_number(_COLUMNS[1], context), whole_number(_COLUMNS[2], generated)
        yield left_out(_COLUMNS[1], prompt_tokens, _COLUMNS[2], output_tokens) or Row(
            _stamp_s(stamp), (private(lines, prompt_tokens),), output_tokens
        )


def _stamp_s(cell: str) -> float:
    """Seconds since 1970 in UTC."""
    try:
        stamp = datetime.fromisoformat(cell.strip())
    except ValueError:
        raise BadRow(f"TIMESTAMP is {cell!r}, expected a date and time like 2024-05-10 00:00:00.009930+00:00") from None
    return (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()


AZURE = Format("azure", Kind.CSV, _COLUMNS, _read)
