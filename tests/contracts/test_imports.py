"""The import contracts hold, and would not if somebody broke them: each is broken once on purpose."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lint(root: Path) -> str:
    """What the linter says of a checkout; it exits with 1 for a broken contract, and also when it cannot look."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    done = subprocess.run(
        command, cwd=root, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(root / "src")}
    )
    return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_all_contracts_are_kept() -> None:
    assert "0 broken" in lint(ROOT)


@pytest.mark.parametrize(
    ("room", "line"),
    [
        ("domain/ids.py", "import vicinal.topology.graph"),
        ("topology/graph.py", "import vicinal.kvindex.index"),
        ("scheduler/turns.py", "import time"),
        ("cost/price.py", "import random"),
        ("engines/vllm/events.py", "import socket"),
        ("emulator/clock.py", "import vicinal.gateway.app"),
        ("scheduler/cycle.py", "import vicinal.policies.cost"),
        ("observe/encode.py", "import vicinal.cost.price"),
    ],
)
def test_a_broken_contract_is_found(copy: Path, room: str, line: str) -> None:
    path = copy / "src" / "vicinal" / room
    path.write_text(path.read_text() + f"\n{line}\n")
    assert "1 broken" in lint(copy)
