"""The knee of the best of several policies: the highest rate at which nine of ten requests meet both objectives.

All policies are tried at a rate; those that fail drop out, and as long as anybody is left the rate goes up, else half
way back. So the search costs a few runs more than that of a single policy.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import ScenarioError
from vicinal.wiring.runs import Run

ATTAINMENT = 0.9


@dataclass(frozen=True, slots=True)
class Knee:
    """The highest scale that was met, and by whom."""

    scale: float
    policy: str


def best_knee(
    laboratory: Laboratory, base: Run, policies: tuple[str, ...], about: str, *, low: float, high: float
) -> Knee:
    """Of the policies on the base's work, between the scales `low`, which somebody must meet, and `high`.

    Raises ScenarioError when nobody meets `low`. Exact to within a tenth.
    """
    left = _meeting(laboratory, base, policies, low, about)
    if not left:
        raise ScenarioError(f"{about}: no policy meets its objectives at {low:g} times the workload's rate")
    best = low
    while high / best > 1.1:
        middle = (best * high) ** 0.5
        meeting = _meeting(laboratory, base, tuple(left), middle, about)
        if meeting:
            best, left = middle, meeting
        else:
            high = middle
    return Knee(best, max(left, key=lambda name: left[name]))


def _meeting(
    laboratory: Laboratory, base: Run, policies: tuple[str, ...], scale: float, about: str
) -> Mapping[str, float]:
    """The attainment of those policies that meet the objectives at this scale, with one seed."""
    runs = [replace(base, policy=policy, work=replace(base.work, scale=scale)) for policy in policies]
    results = laboratory.results(runs, f"{about}, {scale:.2f} times the rate")
    found = {
        policy: 0.0 if result.unstable is not None else result.attainment or 0.0
        for policy, result in zip(policies, results, strict=True)
    }
    return {policy: share for policy, share in found.items() if share >= ATTAINMENT}
