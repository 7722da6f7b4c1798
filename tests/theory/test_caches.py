"""The cache against the figures that others computed: Che's approximation, and two traces through one cache."""

import msgspec
import pytest

from tests.theory.caches import che, in_pool
from tests.workload.traces import TRACES, public

BLOCK_TOKENS = 512

CURVES = {
    "conversation": (0.0533, 0.1361, 0.2071, 0.2852, 0.3513, 0.3635, 0.3664),
    "synthetic": (0.1424, 0.3094, 0.4206, 0.5666, 0.6393, 0.6396, 0.6396),
}
CAPACITIES_TOKENS = (1_000_000, 3_000_000, 5_000_000, 10_000_000, 20_000_000, 50_000_000, 150_000_000)
"""The last holds every block of either trace."""


@pytest.mark.parametrize(
    ("alpha", "wanted"),
    [
        (0.6, (0.0432, 0.2432, 0.4927)),
        (0.8, (0.1566, 0.4367, 0.6589)),
        (1.0, (0.3905, 0.6756, 0.8248)),
        (1.2, (0.6563, 0.8614, 0.9340)),
    ],
)
def test_the_approximation_is_computed_right(alpha, wanted):
    assert [che(alpha, size) for size in (100, 1000, 3000)] == pytest.approx(wanted, abs=6e-5)


@public
@pytest.mark.parametrize("name", CURVES)
def test_a_trace_has_its_hit_ratio_at_each_size(name):
    """One cache for all prompts of the trace, in order; the share of blocks found. Mooncake's paper has 41 % and 46 to
    48 % of the most that can be had at 3 million tokens (FAST'25, figure 9)."""
    lines = (TRACES / "mooncake" / f"{name}_trace.jsonl").read_bytes().splitlines()
    rows = [msgspec.json.decode(line) for line in lines]
    chains = [row["hash_ids"] for row in sorted(rows, key=lambda row: row["timestamp"])]
    curve = []
    for tokens in CAPACITIES_TOKENS:
        found, blocks = (sum(column) for column in zip(*in_pool(chains, tokens // BLOCK_TOKENS), strict=True))
        curve.append(found / blocks)
    assert curve == pytest.approx(CURVES[name], abs=6e-5)
