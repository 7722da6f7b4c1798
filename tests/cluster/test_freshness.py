"""Age and absence, at their borders."""

import numpy as np
import pytest

from vicinal.cluster.freshness import Freshness, FreshnessRule

pytestmark = pytest.mark.mission("B12")

RULE = FreshnessRule(heartbeat_s=2.0, stale_heartbeats=2.0, unknown_heartbeats=10.0)


@pytest.mark.parametrize(
    ("age_s", "freshness"),
    [
        (0.0, Freshness.FRESH),
        (4.0, Freshness.FRESH),
        (np.nextafter(4.0, 5.0), Freshness.STALE),
        (20.0, Freshness.STALE),
        (np.nextafter(20.0, 21.0), Freshness.UNKNOWN),
        (np.inf, Freshness.UNKNOWN),
    ],
)
def test_table(age_s: float, freshness: Freshness) -> None:
    assert RULE.of(age_s) is freshness
    assert bool(RULE.known(np.array([age_s]))[0]) == (freshness is not Freshness.UNKNOWN)


def test_hbm_margin_grows_once_stale() -> None:
    rule = FreshnessRule(heartbeat_s=2.0, margin_share=0.02, margin_share_per_heartbeat=0.01)
    ages_s = np.array([0.0, 4.0, 6.0, 20.0])
    assert rule.hbm_margin_share(ages_s).tolist() == pytest.approx([0.02, 0.02, 0.03, 0.10])
    assert np.isfinite(rule.hbm_margin_share(np.array([np.inf]))[0])
