"""`vicinal key`: a new API key, for a client or for the operator's address."""

import datetime
import sys
from typing import Annotated

from cyclopts import Parameter

from vicinal.cli.problems import UsageError
from vicinal.config.toml import scalar
from vicinal.gateway.keys import hash_of, new_key


def key(
    *,
    tenant: Annotated[str, Parameter(help="On whose behalf its requests come.")] = "",
    admin: Annotated[bool, Parameter(help="A key of the operator's address instead.", negative="")] = False,
    name: Annotated[str, Parameter(help="A note for people: who has it, what for.")] = "",
    models: Annotated[str, Parameter(help="The models that it opens, with commas between them; all if empty.")] = "",
    service: Annotated[str, Parameter(help="Class of service of its requests; interactive if empty.")] = "",
    expires: Annotated[str, Parameter(help="From this day on (00:00 UTC) it opens nothing, as 2027-01-31.")] = "",
) -> None:
    """Make a key. It is printed once, on the error output, and kept nowhere: give it to whoever shall use it.

    The lines on the standard output hold its hash. They belong in the file at access.keys_file, or, with --admin, at
    access.admin_keys_file: `vicinal key --tenant acme >> keys.toml` (docs/access.md).
    """
    if admin == bool(tenant):
        raise UsageError("say for whom: --tenant NAME, or --admin for a key of the operator's address")
    if admin and (models or service):
        raise UsageError("a key of the operator's address has no --models and no --service")
    ident, secret = new_key()
    lines = ["[[key]]"]
    if name:
        lines.append(f"name = {scalar(name)}")
    lines += [f"id = {scalar(ident)}", f"sha256 = {scalar(hash_of(secret))}"]
    if tenant:
        lines.append(f"tenant = {scalar(tenant)}")
    if models:
        lines.append(f"models = {scalar(tuple(each.strip() for each in models.split(',')))}")
    if service:
        lines.append(f"service = {scalar(service)}")
    if expires:
        lines.append(f"expires = {_day(expires)}")
    print("\n".join(lines) + "\n")
    print(f"The key, shown this once: {secret}", file=sys.stderr)


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--expires {text}: expected a day as 2027-01-31") from None
