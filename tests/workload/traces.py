"""Trace files for tests: made-up ones, and where the public ones are."""

import json
import os
from pathlib import Path

import pytest

from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Vocabulary

VOCABULARY = Vocabulary(5, 1024)
TRACES = Path(os.environ.get("VICINAL_TRACES", Path(__file__).resolve().parents[3] / "shared" / "traces"))

public = pytest.mark.skipif(not TRACES.is_dir(), reason="no public traces in ../shared/traces (or VICINAL_TRACES)")


def json_file(folder: Path, *rows: dict[str, object], name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def csv_file(folder: Path, *lines: str, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def common_tokens(one: Arrival, other: Arrival) -> int:
    """How many leading tokens two prompts share."""
    pairs = zip(one.prompt_token_ids.tolist(), other.prompt_token_ids.tolist(), strict=False)
    shared = 0
    for a, b in pairs:
        if a != b:
            break
        shared += 1
    return shared
