"""`vicinal explain`: why a request went where it did, from the decision record."""

from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter
from rich.console import Console

from vicinal.cli.problems import UsageError
from vicinal.observe.explain import text, to_json
from vicinal.observe.read import Case, find, last, slowest

WIDTH = 120


def explain(
    request_id: Annotated[
        str | None, Parameter(help="A request's id (the X-Request-Id of its answer), or how it begins.")
    ] = None,
    *,
    newest: Annotated[bool, Parameter(name="--last", help="The request decided on last.", negative="")] = False,
    slowest_n: Annotated[int | None, Parameter(name="--slowest", help="The N requests with the longest TTFT.")] = None,
    directory: Annotated[Path, Parameter(help="Where the record is (record.directory).")] = Path("vicinal-data"),
    json: Annotated[bool, Parameter(help="Print JSON, one line for each request.", negative="")] = False,
) -> None:
    """Explain a decision: the plans that were compared, term by term in milliseconds, and why not the emptiest GPU.

    Name the request in one way: by its id, as the last one, or as one of the slowest.
    """
    cases = _cases(directory, request_id, newest, slowest_n)
    if json:
        for case in cases:
            print(msgspec.json.encode(to_json(case)).decode())
        return
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    for case in cases:
        for part in text(case):
            console.print(part, highlight=False)
        console.print()


def _cases(directory: Path, request_id: str | None, newest: bool, count: int | None) -> list[Case]:
    if sum((request_id is not None, newest, count is not None)) != 1:
        raise UsageError("name one request: its REQUEST_ID, --last, or --slowest N")
    if request_id is not None:
        return [find(directory, request_id)]
    if count is not None:
        return slowest(directory, count)
    return [last(directory)]
