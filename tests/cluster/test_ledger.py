"""The ledger against a naive twin that keeps plain lists and adds everything up anew each time."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec import structs

from vicinal.cluster.ledger import DecodeWork, Ledger, PrefillWork, Transfer
from vicinal.domain.ids import RequestId
from vicinal.topology.graph import Level

SUMS = (
    "prefill_count",
    "prefill_tokens",
    "decode_count",
    "decode_context_tokens",
    "pencilled_count",
    "pencilled_context_tokens",
    "decode_tokens",
    "blocks_reserved",
    "link_flows",
)


@dataclass
class Queued:
    owner: RequestId
    compute_s: Fraction
    tokens: int
    since_s: Fraction
    """When it became the head; meaningless before."""


@dataclass
class Twin:
    """Every sum is computed from these lists. Seconds are fractions: quarters are exact in both."""

    slots: int = 0
    links: int = 0
    queues: dict[int, list[Queued]] = field(default_factory=dict)
    decodes: dict[RequestId, DecodeWork] = field(default_factory=dict)
    pencilled: dict[RequestId, DecodeWork] = field(default_factory=dict)
    blocks: dict[tuple[RequestId, int], int] = field(default_factory=dict)
    transfers: dict[RequestId, Transfer] = field(default_factory=dict)

    def close_prefill(self, owner: RequestId, now: Fraction) -> None:
        for queue in self.queues.values():
            for place, queued in enumerate(queue):
                if queued.owner == owner:
                    del queue[place]
                    if place == 0 and queue:
                        queue[0].since_s = now
                    return

    def wait_s(self, slot: int, now: Fraction) -> Fraction:
        """First come, first served: what is left of the head, and all of those behind it."""
        queue = self.queues.get(slot, [])
        if not queue:
            return Fraction(0)
        head = max(queue[0].compute_s - (now - queue[0].since_s), Fraction(0))
        return head + sum((queued.compute_s for queued in queue[1:]), Fraction(0))

    def sums(self) -> dict[str, list[float]]:
        got = {name: [0.0] * (self.links + 1 if name == "link_flows" else self.slots) for name in SUMS}
        for slot, queue in self.queues.items():
            for queued in queue:
                got["prefill_count"][slot] += 1
                got["prefill_tokens"][slot] += queued.tokens
        for kind, works in (("decode", self.decodes), ("pencilled", self.pencilled)):
            for work in works.values():
                got[f"{kind}_count"][work.slot] += 1
                got[f"{kind}_context_tokens"][work.slot] += work.context_tokens
                got["decode_tokens"][work.slot] += work.total_tokens
        for (_, slot), blocks in self.blocks.items():
            got["blocks_reserved"][slot] += blocks
        for transfer in self.transfers.values():
            for link in transfer.links:
                got["link_flows"][link] += 1
        return got

    def sending(self) -> list[list[float]]:
        counts = [[0.0] * len(Level) for _ in range(self.slots)]
        for transfer in self.transfers.values():
            counts[transfer.source][transfer.level] += 1
        return counts


OWNERS = st.sampled_from([RequestId(name) for name in "abcdef"])
QUARTERS = st.integers(0, 40).map(lambda n: Fraction(n, 4))
DECODES = st.tuples(st.integers(0, 50), st.integers(1, 100))


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.twin = Twin()
        self.now = Fraction(0)

    @initialize(slots=st.integers(1, 3), links=st.integers(1, 4))
    def start(self, slots: int, links: int) -> None:
        self.ledger.resize(slots, links)
        self.twin.slots, self.twin.links = slots, links

    @rule(by=QUARTERS)
    def time_passes(self, by: Fraction) -> None:
        self.now += by

    @rule(owner=OWNERS, slot=st.integers(0, 9), compute_s=QUARTERS, tokens=st.integers(0, 99))
    def open_prefill(self, owner: RequestId, slot: int, compute_s: Fraction, tokens: int) -> None:
        slot %= self.twin.slots
        if owner not in self.ledger.prefills:
            self.ledger.open_prefill(owner, PrefillWork(slot, float(compute_s), tokens), float(self.now))
            self.twin.queues.setdefault(slot, []).append(Queued(owner, compute_s, tokens, self.now))

    @rule(owner=OWNERS)
    def close_prefill(self, owner: RequestId) -> None:
        open_ = self.ledger.prefills.get(owner)
        assert self.ledger.close_prefill(owner, float(self.now)) is open_
        self.twin.close_prefill(owner, self.now)

    @rule(owner=OWNERS, slot=st.integers(0, 9), sizes=DECODES)
    def pencil(self, owner: RequestId, slot: int, sizes: tuple[int, int]) -> None:
        if owner not in self.twin.pencilled:
            work = DecodeWork(slot % self.twin.slots, *sizes)
            self.ledger.pencil_decode(owner, work)
            self.twin.pencilled[owner] = work

    @rule(owner=OWNERS)
    def rub_out(self, owner: RequestId) -> None:
        assert self.ledger.rub_out_decode(owner) is self.twin.pencilled.pop(owner, None)

    @rule(owner=OWNERS, slot=st.integers(0, 9), sizes=DECODES)
    def open_decode(self, owner: RequestId, slot: int, sizes: tuple[int, int]) -> None:
        if owner not in self.twin.decodes:
            work = DecodeWork(slot % self.twin.slots, *sizes)
            self.ledger.open_decode(owner, work)
            self.twin.decodes[owner] = work

    @rule(owner=OWNERS)
    def close_decode(self, owner: RequestId) -> None:
        assert self.ledger.close_decode(owner) is self.twin.decodes.pop(owner, None)

    @rule(owner=OWNERS, slot=st.integers(0, 9), blocks=st.integers(0, 99))
    def hold_blocks(self, owner: RequestId, slot: int, blocks: int) -> None:
        slot %= self.twin.slots
        self.ledger.hold_blocks(owner, slot, blocks)
        self.twin.blocks[owner, slot] = blocks

    @rule(owner=OWNERS, slot=st.integers(0, 9))
    def free_blocks(self, owner: RequestId, slot: int) -> None:
        slot %= self.twin.slots
        self.ledger.free_blocks(owner, slot)
        self.twin.blocks.pop((owner, slot), None)

    @rule(
        owner=OWNERS, slot=st.integers(0, 9), links=st.sets(st.integers(0, 9), max_size=3), level=st.sampled_from(Level)
    )
    def start_transfer(self, owner: RequestId, slot: int, links: set[int], level: Level) -> None:
        if owner not in self.twin.transfers:
            loaded = tuple({link % self.twin.links for link in links})
            transfer = Transfer(slot % self.twin.slots, 0, loaded, 1.0, level)
            self.ledger.start_transfer(owner, transfer)
            self.twin.transfers[owner] = transfer

    @rule(owner=OWNERS)
    def end_transfer(self, owner: RequestId) -> None:
        assert self.ledger.end_transfer(owner) is self.twin.transfers.pop(owner, None)

    @rule(owner=OWNERS, twice=st.booleans())
    def release(self, owner: RequestId, twice: bool) -> None:
        for _ in range(1 + twice):
            self.ledger.release(owner, float(self.now))
        self.twin.close_prefill(owner, self.now)
        for reservations in (self.twin.pencilled, self.twin.decodes, self.twin.transfers):
            reservations.pop(owner, None)
        self.twin.blocks = {key: blocks for key, blocks in self.twin.blocks.items() if key[0] != owner}

    @precondition(lambda self: self.twin.slots < 6)
    @rule(slots=st.integers(0, 2), links=st.integers(1, 6))
    def resize(self, slots: int, links: int) -> None:
        self.twin.slots += slots
        self.twin.links = links
        self.ledger.resize(self.twin.slots, links)
        for owner, old in self.twin.transfers.items():
            moved = structs.replace(old, links=tuple({link % links for link in old.links}))
            self.twin.transfers[owner] = moved
            self.ledger.start_transfer(owner, moved)

    @invariant()
    def sums_agree(self) -> None:
        for name, expected in self.twin.sums().items():
            assert getattr(self.ledger, name).tolist() == expected, name
        assert self.ledger.sending.tolist() == self.twin.sending()

    @invariant()
    def waits_agree(self) -> None:
        expected = [float(self.twin.wait_s(slot, self.now)) for slot in range(self.twin.slots)]
        assert self.ledger.wait_s(float(self.now)).tolist() == expected

    def teardown(self) -> None:
        for owner in "abcdef":
            self.ledger.release(RequestId(owner), float(self.now))
        assert not any(getattr(self.ledger, name).any() for name in (*SUMS, "backlog_s", "sending"))


LedgerMachine.TestCase.settings = settings(deadline=None, max_examples=60, stateful_step_count=40)


@pytest.mark.mission("B12")
class TestLedger(LedgerMachine.TestCase):  # type: ignore[name-defined,misc]
    pass


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(st.sampled_from(["open", "close", "pass"]), st.integers(0, 3), QUARTERS), max_size=25))
def test_waits_of_one_busy_queue(moves: list[tuple[str, int, Fraction]]) -> None:
    """The same against the same twin, in one slot, where heads and others end in any order all the time."""
    ledger, twin, now = Ledger(), Twin(slots=1), Fraction(0)
    ledger.resize(1, 0)
    for move, number, seconds in moves:
        owner = RequestId(str(number))
        if move == "pass":
            now += seconds / 4
        elif move == "close":
            ledger.close_prefill(owner, float(now))
            twin.close_prefill(owner, now)
        elif owner not in ledger.prefills:
            ledger.open_prefill(owner, PrefillWork(0, float(seconds), 1), float(now))
            twin.queues.setdefault(0, []).append(Queued(owner, seconds, 1, now))
        assert ledger.wait_s(float(now)).tolist() == [float(twin.wait_s(0, now))]


def test_the_head_goes_on_when_one_behind_it_ends() -> None:
    ledger = Ledger()
    ledger.resize(1, 0)
    for name in "abc":
        ledger.open_prefill(RequestId(name), PrefillWork(0, 4.0, 10), 0.0)
    ledger.close_prefill(RequestId("b"), 3.0)
    assert [ledger.wait_s(now)[0] for now in (3.0, 4.0, 5.0)] == [5.0, 4.0, 4.0]


def test_a_late_head_owes_nothing_and_those_behind_it_still_do() -> None:
    ledger = Ledger()
    ledger.resize(1, 0)
    ledger.open_prefill(RequestId("a"), PrefillWork(0, 2.0, 10), 0.0)
    ledger.open_prefill(RequestId("b"), PrefillWork(0, 3.0, 10), 1.0)
    assert [ledger.wait_s(now)[0] for now in (0.0, 1.5, 2.0, 9.0)] == [5.0, 3.5, 3.0, 3.0]
    ledger.close_prefill(RequestId("a"), 9.0)
    assert [ledger.wait_s(now)[0] for now in (9.0, 10.0, 12.0)] == [3.0, 2.0, 0.0]


def test_uneven_sums_of_an_empty_queue_are_zero_exactly() -> None:
    ledger = Ledger()
    ledger.resize(1, 0)
    for n, compute_s in enumerate((0.1, 0.2, 0.3, 0.7)):
        ledger.open_prefill(RequestId(str(n)), PrefillWork(0, compute_s, 1), 0.0)
    for n in (2, 0, 3, 1):
        ledger.close_prefill(RequestId(str(n)), 0.0)
    assert ledger.backlog_s.tolist() == [0.0]
    assert np.all(ledger.wait_s(0.0) == 0.0)


class Unwalked(dict[tuple[RequestId, int], int]):
    def __iter__(self) -> Iterator[tuple[RequestId, int]]:
        raise AssertionError("a release looks through everybody's reservations")


def test_a_release_does_not_look_through_the_reservations_of_others() -> None:
    """With 500 endpoints there are some 100,000 of them, and every request that ends is released."""
    ledger = Ledger()
    ledger.resize(3, 0)
    ledger.blocks = Unwalked()
    a, b = RequestId("a"), RequestId("b")
    for owner, slot, blocks in ((a, 0, 5), (a, 2, 6), (b, 0, 7), (a, 2, 8)):
        ledger.hold_blocks(owner, slot, blocks)
    ledger.release(a, 0.0)
    ledger.release(a, 0.0)
    assert ledger.blocks_reserved.tolist() == [7.0, 0.0, 0.0]
    assert (ledger.slots_held(a), ledger.slots_held(b)) == ((), (0,))
