"""Measurements of real engines, which are not part of the repository: a folder with profiles/ and traces/."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("VICINAL_SHARED", Path(__file__).resolve().parents[3] / "shared"))

measured = pytest.mark.skipif(
    not (SHARED / "profiles" / "vllm-ground-truth").is_dir(), reason="no measurements in ../shared (or VICINAL_SHARED)"
)
