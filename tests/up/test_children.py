"""Children of `vicinal up`, as real processes."""

import asyncio
from pathlib import Path

import pytest

from vicinal.wiring.children import child, first_line, last_words

WORDY = """
import sys
sys.stderr.write("warning\\n" * 200_000 + "the last word")
sys.stderr.flush()
print("ready", flush=True)
"""


async def test_a_child_that_complains_a_lot_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its errors are read while it runs: a full pipe would stop it for good."""
    (tmp_path / "wordy.py").write_text(WORDY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    async with asyncio.timeout(20.0), child("wordy", []) as wordy:
        assert await first_line(wordy, "wordy") == b"ready\n"
        said = await last_words(wordy, "wordy")
    assert said.endswith("the last word")
    assert len(said) < 100_000
