"""What "load" means, by name: the measures that `least_loaded` and `power_of_two` can go by. Less is better.

A measure is asked per pool: what it is of a prefill endpoint, of a decode endpoint, and of one that serves whole
requests. A figure that an engine has not reported is Unknown and counts as the largest, never as idle.
"""

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.cost.table import Table

Floats = NDArray[np.float64]

Measure = Literal[
    "tokens",
    "requests",
    "queue",
    "sequences",
    "hbm",
    "utilisation",
    "reported_requests",
    "reported_queue",
    "reported_hbm",
]
"""
tokens: predicted tokens outstanding: to be computed in prefill, of the requests that decode, or both.
requests: prefills and decodes under way there, strangers included.
queue: prefills that wait or run; of a decode endpoint, decodes that are planned for it and have not begun.
sequences: the batch that decodes there, planned ones and strangers included; of a prefill endpoint, its prefills.
hbm: share of KV blocks in use, by our reservations and strangers.
utilisation: see `utilisation`.
reported_*: the engine's last report and nothing else, as old as that is: waiting + running, waiting, KV share in use.
"""

MEASURES: tuple[Measure, ...] = get_args(Measure)


def prefill_load(table: Table, by: Measure) -> Floats:
    """(P,)"""
    view = table.view
    match by:
        case "tokens":
            return table.prefill.outstanding_tokens
        case "queue" | "sequences":
            return view.prefill_count.take(table.prefill.slots)
        case _:
            return _of_endpoint(view, by).take(table.prefill.slots)


def decode_load(table: Table, by: Measure) -> Floats:
    """(D,)"""
    view = table.view
    match by:
        case "tokens":
            return table.decode.outstanding_tokens
        case "queue":
            return view.pencilled_count.take(table.decode.slots)
        case "sequences":
            return view.decode_sequences.take(table.decode.slots)
        case _:
            return _of_endpoint(view, by).take(table.decode.slots)


def whole_load(table: Table, by: Measure) -> Floats:
    """(D,)"""
    view = table.view
    match by:
        case "tokens":
            return table.local_outstanding_tokens
        case "queue":
            return view.prefill_count.take(table.decode.slots)
        case "sequences":
            return view.decode_sequences.take(table.decode.slots)
        case _:
            return _of_endpoint(view, by).take(table.decode.slots)


def _of_endpoint(view: View, by: Measure) -> Floats:
    """The measures that do not ask for the phase, per slot."""
    match by:
        case "requests":
            return view.prefill_count + view.decode_count + view.foreign_requests
        case "hbm":
            return view.blocks_in_use / view.fleet.kv_blocks
        case "utilisation":
            return utilisation(view)
        case "reported_requests":
            return _known(view.reported_waiting + view.reported_running)
        case "reported_queue":
            return _known(view.reported_waiting)
        case "reported_hbm":
            return _known(view.reported_kv_usage)
        case _:
            raise ValueError(f"{by} depends on the phase")


def utilisation(view: View) -> Floats:
    """Per slot, 0 to 1: the engine's own figure of its GPU; where it reports none (stock engines do not), the sequences
    that it runs as a share of what it may run; where that is Unknown too, 1."""
    running = view.reported_running / view.fleet.sequences_max
    shares = np.where(np.isnan(view.gpu_utilization), running, view.gpu_utilization)
    return np.where(np.isnan(shares), 1.0, shares)


def _known(figures: Floats) -> Floats:
    return np.where(np.isnan(figures), np.inf, figures)
