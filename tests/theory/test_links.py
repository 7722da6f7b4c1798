"""Transfers of one link, from prefill to first token: k alike get a k-th of it each, and others what is their share."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.theory.queues import VOCABULARY, System, build
from tests.theory.theory import shared_link_ends
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.enginemodel.fit import Fit
from vicinal.policies.registry import policy
from vicinal.topology.tree import TreeNetwork
from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt

BLOCK_TOKENS = 16
KV_BYTES_PER_TOKEN = 1_000_000
UPLINK_BYTES_PER_S = 1e9
FIT = Fit("server", 0.0, 1e-3, 0.0, 0.0, 0.0, 0.0, source="made for theory")
"""A token takes a millisecond to prefill, and a millisecond to move when the link is its own."""


def fleet(pairs: int) -> list[Endpoint]:
    """Prefill in one rack, decode in another; only the uplink between them is narrow."""
    return [
        Endpoint(
            id=EndpointId(f"{role}-{number}"),
            url="",
            role=role,
            model=ModelId("m"),
            profile="server",
            kv_blocks=10_000,
            block_tokens=BLOCK_TOKENS,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN,
            model_tokens_max=1_000_000,
            nic_bytes_per_s=1e15,
            placement=Placement(f"{role}-{number}", role, "p", "s"),
        )
        for role in (Role.PREFILL, Role.DECODE)
        for number in range(pairs)
    ]


def first_tokens_s(at_s: list[float], tokens: list[int]) -> list[float]:
    """When each request has its first token; every request has a prefill endpoint to itself."""
    network = TreeNetwork(
        spine_latency_s=0.25, uplink_bytes_per_s={Role.PREFILL: UPLINK_BYTES_PER_S, Role.DECODE: 1e15}
    )
    arrivals = [
        Arrival(when_s, Prompt((Piece(number, count),), VOCABULARY), 2)
        for number, (when_s, count) in enumerate(zip(at_s, tokens, strict=True))
    ]
    simulation = build(fleet(len(tokens)), arrivals, policy("round_robin"), System(), FIT, network)
    simulation.run(lambda _arrived, _now: None)
    measures = simulation.measures
    order = np.argsort(measures.arrived_s)
    return (np.array(measures.arrived_s) + np.array(measures.ttft_s))[order].tolist()


@pytest.mark.parametrize("flows", [1, 2, 3, 8])
def test_equal_transfers_get_equal_shares(flows):
    """All set out after 0.16 s of prefill and 0.25 s of latency, and are there 0.16 s times their number later."""
    stamps_s = [1.0 + k * 1e-9 for k in range(flows)]
    ends_s = first_tokens_s(stamps_s, [160] * flows)
    assert ends_s == pytest.approx([1.0 + 0.16 + 0.25 + flows * 0.16] * flows, abs=1e-7)


def test_staggered_transfers_by_hand():
    """The second sets out when half of the first is through: 0.8 s have 0.8 s left, and 1.6 s have 1.6 s. They share
    until the first is done, 1.6 s later; the second then has 0.8 s left for itself."""
    ends_s = first_tokens_s([0.0, 0.8], [1600, 1600])
    assert ends_s == pytest.approx([1.85 + 0.8 + 1.6, 1.85 + 0.8 + 1.6 + 0.8], abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 2_000), st.integers(1, 200)), min_size=1, max_size=6, unique_by=lambda f: f[0])
)
def test_any_transfers_end_as_processor_sharing_says(flows):
    flows = sorted(flows)
    at_s, tokens = [start / 1e3 for start, _ in flows], [blocks * BLOCK_TOKENS for _, blocks in flows]
    begins_s = [when_s + count * 1e-3 + 0.25 for when_s, count in zip(at_s, tokens, strict=True)]
    wanted_s = shared_link_ends(begins_s, [count * 1e6 for count in tokens], UPLINK_BYTES_PER_S)
    assert first_tokens_s(at_s, tokens) == pytest.approx(wanted_s, abs=1e-6)
