"""A fleet at work, for benchmarks: virtual time, a seeded workload, engines that take exactly as long as predicted.

Racks of 16 endpoints, half of them prefill, half decode. A prompt has 10,000 tokens: 6,000 shared with its group, which
a few endpoints hold already, and 4,000 of its own. Arrivals are Poisson, at a rate that keeps `UTILISATION` of the
prefill pool busy. Every endpoint reports once a second. So a decision meets what it meets in earnest: queues, batches,
flows on links, blocks that are ready and blocks that are on their way.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.cost.model import CostModel
from vicinal.domain.decision import TERMS, Decision
from vicinal.domain.effects import Dispatch, Effect, Record
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.events import (
    BlocksStored,
    EndpointReported,
    Event,
    FirstToken,
    PrefillDone,
    RequestArrived,
    RequestFinished,
    TopologyChanged,
)
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.plan import Leg
from vicinal.domain.report import EndpointReport
from vicinal.domain.request import INTERACTIVE, Request
from vicinal.enginemodel.profiles import KV_BYTES_PER_TOKEN, profile
from vicinal.kvindex.hashing import chain
from vicinal.policies.registry import policy
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.topology.tree import TreeNetwork, tree_topology

PROFILE = "llama-3.1-70b-h100-tp8-vllm"
MODEL = ModelId("llama-3.1-70b")
BLOCK_TOKENS = 16
PROMPT_TOKENS, SHARED_TOKENS, OUTPUT_TOKENS = 10_000, 6_000, 100
RACK = 16
UTILISATION = 0.6


@dataclass(order=True, slots=True)
class _Due:
    at_s: float
    order: int
    event: Event = field(compare=False)


class FleetAtWork:
    """`endpoints` is a multiple of 2. `arrivals()` yields each request just before it is handled."""

    def __init__(self, endpoints: int, seed: int = 0, policy_name: str = "cost") -> None:
        self.rng = np.random.default_rng(seed)
        self.now = 0.0
        self.scheduler = _scheduler(policy_name, seed)
        self._fleet = _fleet(endpoints)
        self._due: list[_Due] = []
        self._order = count()
        fresh_s = profile(PROFILE).prefill_s(PROMPT_TOKENS, SHARED_TOKENS)
        self._interval_s = fresh_s / (UTILISATION * endpoints / 2)
        self._prefixes = [self.rng.integers(0, 2**17, SHARED_TOKENS, dtype=np.uint32) for _ in range(endpoints // 2)]
        self._shared_hashes = [chain(prefix.tobytes(), BLOCK_TOKENS) for prefix in self._prefixes]
        self._feed(TopologyChanged(tuple(self._fleet)))
        for one in self._fleet:
            self._put(0.0, EndpointReported(_idle(one.id, 0.0)))
        for prefix in self._prefixes:
            for slot in self.rng.choice(endpoints, 2, replace=False).tolist():
                self._feed(_stored(self._fleet[slot].id, prefix))

    @property
    def settled_after(self) -> int:
        """Arrivals until as many requests end as begin: those of the longest life, about."""
        return int(2.0 / self._interval_s)

    def arrivals(self) -> Iterator[RequestArrived]:
        """For ever: the next request; what falls due before it is handled first, the request itself by `arrive`."""
        for number in count():
            at_s = self.now + float(self.rng.exponential(self._interval_s))
            while self._due and self._due[0].at_s <= at_s:
                due = heapq.heappop(self._due)
                self.now = due.at_s
                self._feed(due.event)
            self.now = at_s
            yield RequestArrived(self.request(f"bench-{number}"))

    def arrive(self, effects: list[Effect]) -> None:
        """Carry out what the core asked for when it handled an arrival."""
        decision: Decision | None = None
        for effect in effects:
            match effect:
                case Record():
                    decision = effect.decision
                case Dispatch() if decision is not None:
                    self._run(effect, decision)

    def request(self, name: str) -> Request:
        group = int(self.rng.integers(len(self._prefixes)))
        own = self.rng.integers(0, 2**17, PROMPT_TOKENS - SHARED_TOKENS, dtype=np.uint32)
        shared = self._shared_hashes[group]
        return Request(
            id=RequestId(name),
            model=MODEL,
            tenant=TenantId("default"),
            service=INTERACTIVE,
            prompt_tokens=PROMPT_TOKENS,
            block_tokens=BLOCK_TOKENS,
            block_hashes=shared + chain(own.tobytes(), BLOCK_TOKENS, int.from_bytes(shared[-8:], "little")),
            max_output_tokens=OUTPUT_TOKENS,
            expected_output_tokens=OUTPUT_TOKENS,
        )

    def _feed(self, event: Event) -> None:
        self.arrive(list(self.scheduler.handle(event, self.now)))
        if isinstance(event, EndpointReported):
            report = event.report
            self._put(self.now + 1.0, EndpointReported(_idle(report.endpoint, self.now + 1.0)))

    def _put(self, at_s: float, event: Event) -> None:
        heapq.heappush(self._due, _Due(at_s, next(self._order), event))

    def _run(self, sent: Dispatch, decision: Decision) -> None:
        """The engine does what was predicted of it."""
        terms = dict(zip(TERMS, decision.chosen.terms, strict=True))
        name, attempt = sent.request_id, sent.attempt
        if sent.leg is Leg.PREFILL:
            prefill_s = sum(terms[name] or 0.0 for name in ("wait_prefill", "fetch_kv", "compute_prefill"))
            self._put(self.now + prefill_s, PrefillDone(name, attempt, decision.chosen.plan.cached_tokens))
            return
        first_s = self.now + (terms["ttft"] or 0.0)
        self._put(first_s, FirstToken(name, attempt))
        done_s = first_s + OUTPUT_TOKENS * (terms["tpot"] or 0.0)
        self._put(done_s, RequestFinished(name, attempt, OUTPUT_TOKENS))


def _scheduler(policy_name: str, seed: int) -> Scheduler:
    network = TreeNetwork(leaf_oversubscription=8.0)
    state = ClusterState(BLOCK_TOKENS, lambda fleet: tree_topology(fleet, network), FreshnessRule())
    chance = np.random.default_rng(seed)
    return Scheduler(state, CostModel(profile), policy(policy_name), chance, SchedulerSettings())


def _fleet(endpoints: int) -> list[Endpoint]:
    return [
        Endpoint(
            id=EndpointId(f"rack{n // RACK:02}-{role}{n % RACK // 2}"),
            url=f"http://rack{n // RACK:02}-{n % RACK}:8000",
            role=role,
            model=MODEL,
            profile=PROFILE,
            kv_blocks=75_000,
            block_tokens=BLOCK_TOKENS,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN[PROFILE],
            model_tokens_max=131_072,
            nic_bytes_per_s=25e9,
            events_url=f"tcp://host{n}:5557",
            placement=Placement(f"host{n}", f"rack{n // RACK:02}", f"pod{n // RACK // 8}", "site"),
        )
        for n in range(endpoints)
        for role in ((Role.PREFILL, Role.DECODE)[n % 2],)
    ]


def _idle(endpoint: EndpointId, at_s: float) -> EndpointReport:
    """Nobody else's work is there: own work is in the ledger already."""
    return EndpointReport(endpoint, at_s, waiting=0, running=0, kv_usage=0.0)


def _stored(endpoint: EndpointId, tokens: np.ndarray) -> BlocksStored:
    blocks = len(tokens) // BLOCK_TOKENS
    names = tuple(int(name) for name in np.frombuffer(chain(tokens.tobytes(), BLOCK_TOKENS), dtype=np.uint64))
    return BlocksStored(endpoint, 0, 0, None, names[:blocks], tokens.tobytes(), BLOCK_TOKENS)
