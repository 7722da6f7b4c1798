"""Every invariant of the scheduler's whole state, in one function. Tests tear down through it; a live process that is
idle can run it too. It costs time in proportion to the state, so it is not for the hot path."""

import numpy as np

from vicinal.kvindex.run import slots_of
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.states import State
from vicinal.topology.graph import Level


class BrokenInvariantError(AssertionError):
    """The state contradicts itself: a bug. The message says which sum, owner or state is wrong."""


def validate(scheduler: Scheduler) -> None:
    """Raise `BrokenInvariantError` unless all holds. With no live request every reservation must be zero."""
    ledger, requests = scheduler.state.ledger, scheduler.requests
    for name, owners in (
        ("prefill", ledger.prefills),
        ("pencilled decode", ledger.pencilled),
        ("decode", ledger.decodes),
        ("transfer", ledger.transfers),
        ("blocks", {owner for owner, _ in ledger.blocks}),
        ("a tenant's share", ledger.parties()),
        ("a quota", scheduler.tenancy.quotas.charged()),
    ):
        strangers = set(owners) - set(requests)
        if strangers:
            raise BrokenInvariantError(f"{name} reserved for requests that are over: {sorted(strangers)[:5]}")
    for tracked in requests.values():
        if tracked.state.final:
            raise BrokenInvariantError(f"{tracked.id} is {tracked.state} and still tracked")
        if (tracked.state is State.HELD) != (tracked.id in scheduler.turns.flow):
            raise BrokenInvariantError(f"{tracked.id} is {tracked.state}, which the queue of held requests contradicts")
        if tracked.state is State.HELD and tracked.expected:
            raise BrokenInvariantError(f"{tracked.id} is held and has blocks on their way")
    if len(scheduler.turns.passing) != len(scheduler.turns.flow):
        raise BrokenInvariantError(f"{len(scheduler.turns.passing)} requests note who passes them by, others wait")
    wanted = {slot for tracked in requests.values() for slot in tracked.expected}
    filling = set(slots_of(scheduler.state.index.planned()))
    if filling - wanted:
        raise BrokenInvariantError(f"slots {sorted(filling - wanted)} fill blocks for requests that are over")
    if not scheduler.tenancy.kept.sound():
        raise BrokenInvariantError("what tenants keep is not what the index knows of it")
    _sums(scheduler)
    scheduler.state.index.validate()


def _sums(scheduler: Scheduler) -> None:
    ledger = scheduler.state.ledger
    slots = len(scheduler.state.fleet)
    expected = {
        "backlog_s": np.zeros(slots),
        "prefill_count": np.zeros(slots),
        "prefill_tokens": np.zeros(slots),
        "decode_count": np.zeros(slots),
        "decode_context_tokens": np.zeros(slots),
        "pencilled_count": np.zeros(slots),
        "pencilled_context_tokens": np.zeros(slots),
        "decode_tokens": np.zeros(slots),
        "blocks_reserved": np.zeros(slots),
        "link_flows": np.zeros(len(scheduler.state.topology.links) + 1),
        "sending": np.zeros((slots, len(Level))),
        "party_blocks": np.zeros_like(ledger.party_blocks),
        "party_sequences": np.zeros_like(ledger.party_sequences),
    }
    party_of = ledger.parties()
    for work in ledger.prefills.values():
        expected["backlog_s"][work.slot] += work.compute_s
        expected["prefill_count"][work.slot] += 1
        expected["prefill_tokens"][work.slot] += work.new_tokens
    for kind, works in (("decode", ledger.decodes), ("pencilled", ledger.pencilled)):
        for owner, decode in works.items():
            expected[f"{kind}_count"][decode.slot] += 1
            if owner in party_of:
                expected["party_sequences"][party_of[owner], decode.slot] += 1
            expected[f"{kind}_context_tokens"][decode.slot] += decode.context_tokens
            expected["decode_tokens"][decode.slot] += decode.total_tokens
    for (owner, slot), blocks in ledger.blocks.items():
        expected["blocks_reserved"][slot] += blocks
        if owner in party_of:
            expected["party_blocks"][party_of[owner], slot] += blocks
    for transfer in ledger.transfers.values():
        expected["link_flows"][list(transfer.links)] += 1
        expected["sending"][transfer.source, transfer.level] += 1
    for name, sums in expected.items():
        if not np.allclose(getattr(ledger, name), sums, rtol=1e-6, atol=1e-6):
            raise BrokenInvariantError(f"ledger.{name} is {getattr(ledger, name)}, its reservations sum to {sums}")
