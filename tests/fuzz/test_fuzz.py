"""A short fuzz run, always the same: the cases of the table are its seeds, and nothing that is raised goes unseen."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.target import check
from tests.http.answers import ANSWERS
from tests.http.cases import CASES

ROOT = Path(__file__).parent.parent.parent
RUNS = 20_000


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris has no wheel for this interpreter")
def test_twenty_thousand_inputs_find_nothing(tmp_path: Path) -> None:
    words = [f"-runs={RUNS}", "-seed=1", f"-artifact_prefix={tmp_path}/", str(tmp_path / "corpus")]
    run = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.http_fuzz", *words], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    assert f"Done {RUNS} runs" in run.stderr


def test_the_seeds_pass_without_a_fuzzer() -> None:
    for size in (0, 5, 62):
        for case in CASES:
            check(bytes([1, size]) + case.sent)
        for said in ANSWERS:
            for speaker in (0, 4):
                check(bytes([speaker, size]) + said)


def test_the_target_would_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is lenient about one thing is found by the second opinion."""
    monkeypatch.setattr("vicinal.gateway.chunked_body._NO_TRAILERS", frozenset())
    lenient = next(case for case in CASES if case.name == "a trailer that names a length")
    with pytest.raises(AssertionError, match="refused there"):
        check(bytes([1, 5]) + lenient.sent)
