"""What we sent and have not seen the end of: reservations, each with one owner, each released exactly once.

A reservation counts at once, so the next decision sees it. Prefill work is a queue per slot, first come, first served:
its backlog is the predicted compute of all that waits, less what the head has had since it began. A decode is
*pencilled* while its prefill runs (it adds to the expected batch, but holds no HBM) and *reserved* afterwards.
A transfer loads the links of its path until the first token shows that it is over.

Owners may belong to parties, whose blocks and sequences are summed up by themselves: tenants with a reserve
(flow/reserves.py). Nobody does where there are none.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.domain.ids import RequestId
from vicinal.topology.graph import Level


class PrefillWork(Struct, frozen=True):
    slot: int
    compute_s: float
    new_tokens: int


class DecodeWork(Struct, frozen=True):
    """`context_tokens` is the mean context over its life: the prompt and half of the expected answer."""

    slot: int
    context_tokens: float
    total_tokens: int


class Transfer(Struct, frozen=True):
    source: int
    target: int
    links: tuple[int, ...]
    kv_bytes: float
    level: Level


class Ledger:
    """Sums per slot and per link over all open reservations.

    `party_blocks` and `party_sequences` are (parties, slots): of each party's owners, pencilled decodes included.
    Every `close_*` returns the reservation, or None when the owner has none of that kind: releasing twice is harmless.
    """

    def __init__(self) -> None:
        self._parties = 0
        self._party_of: dict[RequestId, int] = {}
        self.prefills: dict[RequestId, PrefillWork] = {}
        self.pencilled: dict[RequestId, DecodeWork] = {}
        self.decodes: dict[RequestId, DecodeWork] = {}
        self.blocks: dict[tuple[RequestId, int], int] = {}
        self._slots_held: dict[RequestId, tuple[int, ...]] = {}
        self.transfers: dict[RequestId, Transfer] = {}
        self._queues: list[dict[RequestId, None]] = []
        self.head_compute_s = np.zeros(0)
        self.head_started_s = np.zeros(0)
        self.resize(0, 0)

    def resize(self, slots: int, links: int) -> None:
        """Make room for a fleet of `slots` and a network of `links`; transfers must be started again on new links.

        A fleet never loses slots (cluster/fleet.py), so what is open stays where it is.
        """
        newcomers = slots - len(self._queues)
        self._queues += [{} for _ in range(newcomers)]
        self.head_compute_s = np.append(self.head_compute_s, np.zeros(newcomers))
        self.head_started_s = np.append(self.head_started_s, np.zeros(newcomers))
        self.backlog_s = np.zeros(slots)
        self.prefill_count = np.zeros(slots)
        self.prefill_tokens = np.zeros(slots)
        self.decode_count = np.zeros(slots)
        self.decode_context_tokens = np.zeros(slots)
        self.pencilled_count = np.zeros(slots)
        self.pencilled_context_tokens = np.zeros(slots)
        self.decode_tokens = np.zeros(slots)
        self.blocks_reserved = np.zeros(slots)
        self.link_flows = np.zeros(links + 1)
        self.sending = np.zeros((slots, len(Level)))
        self.party_blocks = np.zeros((self._parties, slots))
        self.party_sequences = np.zeros((self._parties, slots))
        for work in self.prefills.values():
            self._add_prefill(work, 1)
        for owner, decode in self.decodes.items():
            self._add_decode(owner, decode, 1)
        for owner, decode in self.pencilled.items():
            self._add_pencilled(owner, decode, 1)
        for (owner, slot), blocks in self.blocks.items():
            self._add_blocks(owner, slot, blocks)

    def count_parties(self, parties: int) -> None:
        """Sum up so many parties, from now on; nothing is reserved yet."""
        self._parties = parties
        self.resize(len(self._queues), len(self.link_flows) - 1)

    def join(self, owner: RequestId, party: int) -> None:
        """What `owner` reserves from now on, until it is released, is its party's. Harmless when it is so already."""
        self._party_of[owner] = party

    def parties(self) -> dict[RequestId, int]:
        """Owners that belong to one."""
        return dict(self._party_of)

    def open_prefill(self, owner: RequestId, work: PrefillWork, now: float) -> None:
        queue = self._queues[work.slot]
        if not queue:
            self.head_compute_s[work.slot] = work.compute_s
            self.head_started_s[work.slot] = now
        queue[owner] = None
        self.prefills[owner] = work
        self._add_prefill(work, 1)

    def close_prefill(self, owner: RequestId, now: float) -> PrefillWork | None:
        work = self.prefills.pop(owner, None)
        if work is None:
            return None
        queue = self._queues[work.slot]
        was_head = next(iter(queue)) == owner
        del queue[owner]
        self._add_prefill(work, -1)
        if not queue:
            self.backlog_s[work.slot] = self.head_compute_s[work.slot] = 0.0
        elif was_head:
            self.head_compute_s[work.slot] = self.prefills[next(iter(queue))].compute_s
            self.head_started_s[work.slot] = now
        return work

    def pencil_decode(self, owner: RequestId, work: DecodeWork) -> None:
        self.pencilled[owner] = work
        self._add_pencilled(owner, work, 1)

    def rub_out_decode(self, owner: RequestId) -> DecodeWork | None:
        work = self.pencilled.pop(owner, None)
        if work is not None:
            self._add_pencilled(owner, work, -1)
        return work

    def open_decode(self, owner: RequestId, work: DecodeWork) -> None:
        self.decodes[owner] = work
        self._add_decode(owner, work, 1)

    def close_decode(self, owner: RequestId) -> DecodeWork | None:
        work = self.decodes.pop(owner, None)
        if work is not None:
            self._add_decode(owner, work, -1)
        return work

    def hold_blocks(self, owner: RequestId, slot: int, blocks: int) -> None:
        """Count HBM of `slot` as taken by `owner`. A second hold of the same owner and slot replaces the first."""
        self.free_blocks(owner, slot)
        self.blocks[owner, slot] = blocks
        self._slots_held[owner] = (*self.slots_held(owner), slot)
        self._add_blocks(owner, slot, blocks)

    def free_blocks(self, owner: RequestId, slot: int) -> None:
        blocks = self.blocks.pop((owner, slot), None)
        if blocks is None:
            return
        self._add_blocks(owner, slot, -blocks)
        left = tuple(other for other in self._slots_held.pop(owner) if other != slot)
        if left:
            self._slots_held[owner] = left

    def slots_held(self, owner: RequestId) -> tuple[int, ...]:
        """The slots on which `owner` has HBM. A big fleet has too many reservations to look through for one owner's."""
        return self._slots_held.get(owner, ())

    def start_transfer(self, owner: RequestId, transfer: Transfer) -> None:
        """Count a flow on the transfer's links. After `resize` each open transfer is started again on the new links."""
        self.transfers[owner] = transfer
        self.link_flows[list(transfer.links)] += 1
        self.sending[transfer.source, transfer.level] += 1

    def end_transfer(self, owner: RequestId) -> Transfer | None:
        transfer = self.transfers.pop(owner, None)
        if transfer is not None:
            self.link_flows[list(transfer.links)] -= 1
            self.sending[transfer.source, transfer.level] -= 1
        return transfer

    def release(self, owner: RequestId, now: float) -> None:
        """Give back everything that `owner` has, whatever it is. Idempotent."""
        self.close_prefill(owner, now)
        self.rub_out_decode(owner)
        self.close_decode(owner)
        self.end_transfer(owner)
        for slot in self.slots_held(owner):
            self.free_blocks(owner, slot)
        self._party_of.pop(owner, None)

    def wait_s(self, now: float) -> NDArray[np.float64]:
        """Per slot: seconds until prefill work sent now would begin. The head never owes less than nothing."""
        done = np.minimum(now - self.head_started_s, self.head_compute_s)
        return np.maximum(self.backlog_s - done, 0.0)

    def _add_prefill(self, work: PrefillWork, sign: int) -> None:
        self.backlog_s[work.slot] += sign * work.compute_s
        self.prefill_count[work.slot] += sign
        self.prefill_tokens[work.slot] += sign * work.new_tokens

    def _add_decode(self, owner: RequestId, work: DecodeWork, sign: int) -> None:
        self.decode_count[work.slot] += sign
        self.decode_context_tokens[work.slot] += sign * work.context_tokens
        self.decode_tokens[work.slot] += sign * work.total_tokens
        if (party := self._party_of.get(owner)) is not None:
            self.party_sequences[party, work.slot] += sign

    def _add_pencilled(self, owner: RequestId, work: DecodeWork, sign: int) -> None:
        self.pencilled_count[work.slot] += sign
        self.pencilled_context_tokens[work.slot] += sign * work.context_tokens
        self.decode_tokens[work.slot] += sign * work.total_tokens
        if (party := self._party_of.get(owner)) is not None:
            self.party_sequences[party, work.slot] += sign

    def _add_blocks(self, owner: RequestId, slot: int, blocks: int) -> None:
        self.blocks_reserved[slot] += blocks
        if (party := self._party_of.get(owner)) is not None:
            self.party_blocks[party, slot] += blocks
