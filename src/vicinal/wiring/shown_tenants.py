"""What operators are shown of tenants with quotas: what is under way, what is left, what is kept."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from vicinal.flow.quotas.rules import RATES
from vicinal.scheduler.scheduler import Scheduler

TENANTS_MAX = 100
"""So many are shown, those first whose last request was latest."""


def shown_tenants(scheduler: Scheduler, now: float) -> list[dict[str, Any]]:
    """A row per account that is remembered. `left` is what its buckets have, below 0 after more was taken."""
    return list(islice(_rows(scheduler, now), TENANTS_MAX))


def _rows(scheduler: Scheduler, now: float) -> Iterator[dict[str, Any]]:
    tenancy = scheduler.tenancy
    for (name, model), account in tenancy.quotas.latest():
        left = {quota.value: account.left(quota, now) for quota in RATES}
        kept = tenancy.kept.keeper_of((name, model))
        yield {
            "tenant": name,
            "model": model,
            "under_way": account.concurrency.count,
            "left": {quota: figure for quota, figure in left.items() if figure is not None},
            "kept_blocks": None if kept is None else kept.blocks,
        }
