"""The benchmark's figures are complete, and its fleet is really at work."""

from vicinal.cli.bench_decide import figures
from vicinal.cli.bench_load import OUTPUT_TOKENS, FleetAtWork
from vicinal.scheduler.validate import validate


def test_each_figure_has_a_median_and_a_tail_and_is_held_to_its_aim() -> None:
    found = {figure.name: figure for figure in figures((16,), decisions=20)}
    for name in (
        "decide, 16 endpoints",
        "of it the index match, 16 endpoints",
        "decide and describe, 16 endpoints",
        "all of RequestArrived, 16 endpoints",
        "record a decision",
    ):
        p50, p99 = found[f"{name}, p50"], found[f"{name}, p99"]
        assert 0.0 < p50.value <= p99.value
        assert (p50.unit, p99.aim) == ("us", None)
    assert {figure.aim for figure in found.values()} == {None, 200.0, 50.0}
    for figure in found.values():
        assert figure.holds is (None if figure.aim is None else figure.value < figure.aim)


def test_the_fleet_is_busy_steady_and_seeded() -> None:
    def run(seed: int) -> list[tuple[str, ...]]:
        fleet = FleetAtWork(16, seed)
        placed: list[tuple[str, ...]] = []
        for arrival in fleet.arrivals():
            effects = list(fleet.scheduler.handle(arrival, fleet.now))
            fleet.arrive(effects)
            plan = effects[0].decision.chosen.plan
            placed.append((plan.prefill, plan.decode, plan.action))
            if len(placed) == 3 * fleet.settled_after:
                break
        validate(fleet.scheduler)
        alive = fleet.scheduler.requests
        assert len(placed) / 10 < len(alive) < len(placed) / 2, "some of those that came are still there, most are not"
        assert not len(fleet.scheduler.turns.flow)
        assert all(tracked.request.expected_output_tokens == OUTPUT_TOKENS for tracked in alive.values())
        return placed

    assert run(1) == run(1)
    assert run(1) != run(2)
    actions = {action for *_, action in run(1)}
    assert "hit" in actions
