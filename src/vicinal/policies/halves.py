"""Keys by which one half of a pair is chosen, smaller is better: what policies are made of that choose P, then D."""

import numpy as np
from numpy.typing import NDArray

from vicinal.cost.table import Table
from vicinal.domain.request import Request
from vicinal.policies.loads import prefill_load, whole_load

Floats = NDArray[np.float64]


def prefill_ttft_s(table: Table) -> Floats:
    """(P,) seconds until the prefill would be done: the queue ahead, what is loaded from below HBM, and the tokens that
    are not cached there."""
    return table.start_s


def whole_ttft_s(table: Table) -> Floats:
    """(D,) likewise where one endpoint does all."""
    return table.local_ttft_s


def prefill_work(request: Request, table: Table) -> tuple[Floats, Floats]:
    """(P,) each: tokens to be computed there, and requests that it works on already."""
    return request.prompt_tokens - table.prefill.cached_tokens, prefill_load(table, "queue")


def whole_work(request: Request, table: Table) -> tuple[Floats, Floats]:
    """(D,) each, likewise where one endpoint does all."""
    return request.prompt_tokens - table.decode.local_cached_tokens, whole_load(table, "requests")


def decode_transfer_s(table: Table, i: int) -> Floats:
    """(D,) seconds from the end of the prefill on i: moving what the decode endpoint lacks, with the flows on the links
    as they are, then room for it, then a step of its batch."""
    columns = np.arange(table.shape[1])
    transfer_s = table.grid.transfer_s[i] if table.small else table.price(i, columns).transfer_s
    return transfer_s + table.decode.ready_s + table.decode.step_s
