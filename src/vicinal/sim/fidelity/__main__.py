"""python -m vicinal.sim.fidelity FOLDER: the tables of docs/fidelity.md, from measurements in FOLDER."""

import sys
from pathlib import Path

from vicinal.sim.fidelity.report import fidelity_report
from vicinal.sim.fidelity.tables import as_markdown

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.stdout.write(as_markdown(fidelity_report(Path(sys.argv[1]))))
