"""Which legs answered a request, and the seconds that follow from them."""

import pytest

from vicinal.domain.plan import Leg
from vicinal.replay.stamps import served
from vicinal.wire.stamps import Stamp


def prefill(request_id: str, arrived_s: float, finished_s: float | None, first_token_s: float | None = None) -> Stamp:
    first_token_s = finished_s if first_token_s is None else first_token_s
    return Stamp(request_id, "p", Leg.PREFILL, arrived_s, arrived_s, first_token_s, finished_s, 100, 30, 0, 1)


def decode(
    request_id: str, arrived_s: float, first_s: float | None, finished_s: float | None, tokens: int = 5
) -> Stamp:
    return Stamp(request_id, "d", Leg.DECODE, arrived_s, arrived_s, first_s, finished_s, 100, 99, 70, tokens)


def whole(request_id: str, arrived_s: float, first_s: float | None, finished_s: float | None) -> Stamp:
    return Stamp(request_id, "w", Leg.WHOLE, arrived_s, arrived_s, first_s, finished_s, 100, 0, 0, 5)


def test_two_legs_add_up_without_the_gateways_time_between_them() -> None:
    found = served(["a"], [decode("a", 3.0, 3.5, 4.5), prefill("a", 1.0, 2.0)])["a"]
    assert found.ttft_s == pytest.approx(1.0 + 0.5)
    assert found.tpot_s == pytest.approx(1.0 / 4)
    assert found.e2e_s == pytest.approx(1.5 + 1.0)
    assert (found.first.endpoint, found.last.endpoint, found.tried_s) == ("p", "d", 0.0)


def test_legs_that_leave_together_count_once() -> None:
    """A concurrent hand-off; the prefill engine answers when the KV is gone, which may be after the first token."""
    for finished_s in (2.0, 2.5, 2.75):
        found = served(["a"], [decode("a", 1.25, 2.5, 3.5), prefill("a", 1.0, finished_s)])["a"]
        assert found.ttft_s == pytest.approx(2.5 - 1.0)
        assert found.e2e_s == pytest.approx(3.5 - 1.0)


def test_one_leg_is_both() -> None:
    found = served(["a"], [whole("a", 1.0, 1.25, 2.25)])["a"]
    assert found.first is found.last
    assert (found.ttft_s, found.tpot_s, found.e2e_s) == pytest.approx((0.25, 0.25, 1.25))


def test_a_prefill_that_ends_the_request_is_both_too_and_has_no_tpot() -> None:
    found = served(["a"], [prefill("a", 1.0, 1.5)])["a"]
    assert (found.ttft_s, found.tpot_s, found.e2e_s) == (0.5, None, 0.5)


def test_the_last_finished_attempt_counts_plus_what_the_others_took() -> None:
    stamps = [
        prefill("a", 1.0, 2.0),
        decode("a", 2.0, None, None),
        prefill("a.1", 5.0, 6.0),
        decode("a.1", 6.0, 6.5, 7.0),
        prefill("a.2", 9.0, None),
    ]
    found = served(["a"], stamps)["a"]
    assert found.last.request_id == "a.1"
    assert found.tried_s == 4.0
    assert found.ttft_s == pytest.approx(4.0 + 1.0 + 0.5)


def test_ten_attempts_are_ordered_by_number() -> None:
    stamps = [whole(f"a.{number}", float(number), number + 0.5, number + 1.0) for number in range(1, 12)]
    assert served(["a"], stamps)["a"].last.request_id == "a.11"


def test_ids_with_points_strangers_and_unfinished_requests() -> None:
    stamps = [whole("a.b-1", 0.0, 1.0, 2.0), whole("warm-up", 0.0, 1.0, 2.0), whole("c.x", 0.0, 1.0, 2.0)]
    stamps += [whole("a.b-1.1", 5.0, 6.0, 7.0), prefill("c", 0.0, 1.0), decode("c", 1.0, 2.0, None)]
    found = served(["a.b-1", "c"], stamps)
    assert list(found) == ["a.b-1"]
    assert found["a.b-1"].last.request_id == "a.b-1.1"
