"""What is looked at again some heartbeats later, when even late events have come: then what is still wrong is evidence.

Per endpoint one prompt at a time is looked for in what its engine stored: one match per endpoint and a few heartbeats,
however many requests come. And blocks that were not reused for no known reason are looked for in what it lost: news of
an eviction often comes after the end of a short request that it explains.
"""

from collections import Counter, deque
from dataclasses import dataclass

from vicinal.cluster.state import ClusterState
from vicinal.domain.effects import Warn
from vicinal.domain.ids import EndpointId
from vicinal.domain.request import HASH_BYTES
from vicinal.scheduler.suspicions import Suspicion, Suspicions

SOON = 3.0
PATIENCE = 30.0
"""Heartbeats after which something is looked at again, and after which it is held against an endpoint. Events of a busy
engine, at a busy gateway, have come ten heartbeats after the answer that they belong to."""

MISSING_MAX = 64
"""Per endpoint."""


@dataclass(frozen=True, slots=True)
class _Prompt:
    """It was computed by a request decided on at `decided_s` and over at `over_s`."""

    hashes: bytes
    losses_from: int
    decided_s: float
    over_s: float


@dataclass(frozen=True, slots=True)
class _Missing:
    """A block that was ready at mark `losses_from`, and was not reused by a request that was over at `over_s`."""

    block: bytes
    losses_from: int
    over_s: float


class SecondLooks:
    """One prompt and `MISSING_MAX` blocks per slot; more of them, while these wait, are not looked at.

    `counts` says of missing blocks how many were `explained` by then, `unexplained` even then, and `not_looked_at`.
    """

    def __init__(self, state: ClusterState, suspicions: Suspicions) -> None:
        self._state = state
        self._suspicions = suspicions
        self._prompts: dict[int, _Prompt] = {}
        self.counts: Counter[str] = Counter()
        self._missing: dict[int, deque[_Missing]] = {}

    def prompt(self, slot: int, hashes: bytes, losses_from: int, decided_s: float, over_s: float) -> None:
        """This prompt was computed, or found, there."""
        self._prompts.setdefault(slot, _Prompt(hashes, losses_from, decided_s, over_s))

    def missing(self, slot: int, hashes: bytes, at: int, losses_from: int, over_s: float) -> None:
        """The block at position `at` of this prompt was not reused, and so far nothing explains it."""
        waiting = self._missing.setdefault(slot, deque())
        if len(waiting) < MISSING_MAX:
            waiting.append(_Missing(block_at(hashes, at), losses_from, over_s))
        else:
            self.counts["not_looked_at"] += 1

    def due(self, slot: int, endpoint: EndpointId, now: float) -> list[Warn]:
        """Look at what has waited long enough."""
        heartbeat_s = self._state.freshness.heartbeat_s
        soon_s, patience_s = now - SOON * heartbeat_s, now - PATIENCE * heartbeat_s
        found: list[Warn] = []
        prompt = self._prompts.get(slot)
        if prompt is not None and prompt.over_s <= soon_s:
            blocks, landed = len(prompt.hashes) // HASH_BYTES, ready(self._state, slot, prompt.hashes)
            if landed == blocks or prompt.over_s <= patience_s:
                del self._prompts[slot]
                found += self._judge(slot, endpoint, prompt, landed, blocks)
        return found + self._look_for_missing(slot, endpoint, soon_s, patience_s)

    def forget(self, slot: int) -> None:
        """Another engine has the slot."""
        self._prompts.pop(slot, None)
        self._missing.pop(slot, None)

    def _look_for_missing(self, slot: int, endpoint: EndpointId, soon_s: float, patience_s: float) -> list[Warn]:
        found: list[Warn] = []
        waiting = self._missing.get(slot, deque())
        while waiting and waiting[0].over_s <= soon_s:
            first = waiting[0]
            if lost(self._state, slot, first.block, 0, first.losses_from):
                self.counts["explained"] += 1
            elif first.over_s <= patience_s:
                self.counts["unexplained"] += 1
                found += self._suspicions.add(endpoint, Suspicion.REMOVALS_UNHEARD, True)
            else:
                break
            waiting.popleft()
        return found

    def _judge(self, slot: int, endpoint: EndpointId, prompt: _Prompt, landed: int, blocks: int) -> list[Warn]:
        """What it means that the engine stored so many of its blocks under our hashes."""
        if landed < blocks and lost(self._state, slot, prompt.hashes, landed, prompt.losses_from):
            return []
        heard = bool(self._state.events_s[slot] >= prompt.decided_s)
        add = self._suspicions.add
        found = add(endpoint, Suspicion.NO_BLOCK_EVENTS, not heard and landed < blocks)
        if heard:
            found += add(endpoint, Suspicion.TOKENS_DIFFER_AT_START, landed == 0)
            found += add(endpoint, Suspicion.TOKENS_DIFFER_LATER, 0 < landed < blocks, landed)
        return found


def ready(state: ClusterState, slot: int, hashes: bytes) -> int:
    """Blocks of a prompt that are ready in a slot, from its start."""
    return state.index.match(hashes, len(state.fleet)).ready_at(slot)


def lost(state: ClusterState, slot: int, hashes: bytes, at: int, start: int, stop: int | None = None) -> bool:
    """Whether the slot lost the block at position `at` of a prompt between two marks."""
    name = int.from_bytes(block_at(hashes, at), "little")
    return state.engine_blocks.losses.between(slot, name, start, stop)


def block_at(hashes: bytes, at: int) -> bytes:
    """The hash at position `at` of a chain, packed."""
    return hashes[at * HASH_BYTES : (at + 1) * HASH_BYTES]
