"""Builders of domain decisions and observations for the tests of this room."""

from collections.abc import Callable
from typing import Any

import pytest

from vicinal.domain.decision import TERMS, Decision, InputAge, Observation, PricedPlan
from vicinal.domain.ids import EndpointId, ModelId, RequestId, TenantId
from vicinal.domain.plan import Action, Leg, Plan
from vicinal.domain.verdict import Rule, Verdict


def priced(
    prefill: str = "p0",
    decode: str = "d0",
    action: Action = Action.RECOMPUTE,
    cached: int = 0,
    moved: int = 0,
    total: float = 1.0,
    **terms: float | None,
) -> PricedPlan:
    """A row; terms that are not named are None."""
    plan = Plan(EndpointId(prefill), EndpointId(decode), action, cached, 0, moved)
    return PricedPlan(plan, total, tuple(terms.get(name) for name in TERMS))


def costed(prefill: str, decode: str, cached: int = 0, moved: int = 0, **parts: float) -> PricedPlan:
    """A row as `cost` makes it, at weight 1 and within its objectives: ttft and total follow from the parts."""
    full = dict.fromkeys(TERMS, 0.0) | parts
    chain = full["wait_prefill"] + full["fetch_kv"] + full["compute_prefill"] + full["transfer_kv"]
    full["ttft"] = max(chain, full["decode_ready"]) + full["first_step"]
    full["ttft_cost"] = full["ttft"]
    prices = full["prefill_price"] + full["decode_price"] + full["link_price"]
    total = full["ttft_cost"] + full["tpot_cost"] + prices
    action = Action.HIT if cached else Action.RECOMPUTE
    return priced(prefill, decode, action, cached, moved, total, **full)


def decision(**changes: Any) -> Decision:
    fields: dict[str, Any] = {
        "request_id": RequestId("r1"),
        "attempt": 1,
        "leg": Leg.WHOLE,
        "at_s": 100.25,
        "arrived_s": 100.0,
        "model_id": ModelId("m"),
        "tenant_id": TenantId("t"),
        "priority": 0,
        "policy": "cost",
        "service": "interactive",
        "prompt_tokens": 8400,
        "expected_output_tokens": 256,
        "block_tokens": 16,
        "chosen": costed("p0", "d0", cached=8192, wait_prefill=0.031, compute_prefill=0.02, first_step=0.01),
        "others": (),
        "counterfactuals": (),
        "pairs_considered": 16,
        "verdicts": (),
        "inputs": (InputAge("report p0", "scrape", 0.5),),
        "prefill_price_s_per_s": 0.25,
        "queue_length": 3,
        "worker_queue_length": 2.0,
        "gpu_hbm_available_tokens": 900_000,
        "cache_location": EndpointId("p0"),
        "cache_state": "ready",
        "reason": "p0 holds 8,192 of 8,400 tokens",
        "coarse_hashes": (2**64 - 1, 7),
    }
    return Decision(**(fields | changes))


def observation(**changes: Any) -> Observation:
    fields: dict[str, Any] = {
        "request_id": RequestId("r1"),
        "at_s": 103.0,
        "ending": "done",
        "reason": "",
        "attempts": 1,
        "ttft_s": 0.08,
        "tpot_s": 0.02,
        "e2e_s": 2.5,
        "output_tokens": 120,
        "predicted_ttft_s": 0.061,
        "predicted_tpot_s": 0.021,
        "prefill_s": 0.06,
        "predicted_prefill_s": 0.05,
        "cached_tokens": 8192,
        "predicted_cached_tokens": 8192,
        "moved_tokens": 0,
    }
    return Observation(**(fields | changes))


def verdict(number: int) -> Verdict:
    return Verdict(EndpointId(f"p{number}"), Rule.HEADROOM, "needs 525 blocks, 312 are free", "others must finish")


@pytest.fixture
def make_priced() -> Callable[..., PricedPlan]:
    return priced


@pytest.fixture
def make_costed() -> Callable[..., PricedPlan]:
    return costed


@pytest.fixture
def make_decision() -> Callable[..., Decision]:
    return decision


@pytest.fixture
def make_observation() -> Callable[..., Observation]:
    return observation


@pytest.fixture
def make_verdict() -> Callable[[int], Verdict]:
    return verdict
