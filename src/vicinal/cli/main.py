"""`vicinal`: the command line's entrance. Each command is a file of this folder."""

import sys

from cyclopts import App

import vicinal
from vicinal.cli.problems import PROBLEMS, words

app = App(
    name="vicinal",
    version=vicinal.__version__,
    help="Decides which GPU serves an LLM request, in seconds of expected cost. Start with `vicinal up`.",
)
for command in ("up", "serve", "engine", "simulate", "compare", "scenario", "explain", "key"):
    app.command(f"vicinal.cli.{command}:{command}", name=command)
app.command("vicinal.cli.bench:app", name="bench")
for part in ("core", "relay"):  # of `serve --relays`, which starts them: nobody else's business
    app.command(f"vicinal.cli.{part}:{part}", name=part, show=False)


def main() -> None:
    """Run a command. What a user can mend is one line on the error output and exit code 2, not a traceback."""
    try:
        app()
    except PROBLEMS as problem:
        print(f"vicinal: {words(problem)}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
