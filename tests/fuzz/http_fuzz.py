"""Coverage-guided fuzzing of what reads HTTP, with atheris.

    python -m tests.fuzz.http_fuzz FOLDER -max_total_time=3600

FOLDER keeps what was found to reach new code; it begins with the cases of the table. Options are libFuzzer's; a finding
is written to a file `crash-…` and printed, and the exit code is not 0.
"""

import hashlib
import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["vicinal.gateway", "tests.fuzz.target", "tests.http.streams"]):
    from tests.fuzz.target import check
    from tests.http.answers import ANSWERS
    from tests.http.cases import CASES


def seeds(folder: Path) -> None:
    """Every case as an input, for a client and, of the recorded answers, for an engine."""
    folder.mkdir(parents=True, exist_ok=True)
    said = [bytes([1, 6]) + case.sent for case in CASES] + [
        bytes([speaker, 6]) + a for a in ANSWERS for speaker in (0, 4)
    ]
    for data in said:
        (folder / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)


def main() -> None:
    folder = next((Path(word) for word in sys.argv[1:] if not word.startswith("-")), None)
    if folder is not None:
        seeds(folder)
    atheris.Setup([*sys.argv, "-max_len=6000"], check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
