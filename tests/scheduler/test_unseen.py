"""An unstreamed answer shows no first token: what it no longer needs is given back when the token was expected."""

import pytest

from tests.builders import endpoint, racks, request
from tests.scheduler.play import Play, idle, only
from vicinal.domain.decision import TERMS
from vicinal.domain.effects import Dispatch, Record, RecordObservation
from vicinal.domain.endpoint import Role
from vicinal.domain.plan import Leg


@pytest.mark.mission("B11", "A8")
def test_the_flow_of_an_unstreamed_hand_off_ends_when_its_token_was_expected() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    assert play.scheduler.next_alarm() is None
    handed = play.prefilled("a", 0.5)
    decision, ledger = only(Record, handed).decision, play.scheduler.state.ledger
    assert ledger.link_flows.sum() == 2, "sending and receiving interface"
    assert play.scheduler.next_alarm() == play.now + decision.chosen.terms[TERMS.index("ttft")]
    assert play.alarm() == []
    assert ledger.link_flows.sum() == 0
    assert [slot for (_, slot) in ledger.blocks] == [1], "HBM at the source is free, at the decode endpoint it is not"
    assert play.scheduler.next_alarm() is None
    seen = only(RecordObservation, play.finished("a", 1.0)).observation
    assert (seen.ttft_s, seen.tpot_s) == (None, None), "what nobody saw is not known"
    assert idle(play)


def test_a_whole_unstreamed_request_leaves_the_prefill_queue_while_it_decodes() -> None:
    play = Play([endpoint("both", Role.BOTH)])
    assert only(Dispatch, play.arrive(request("a"))).leg is Leg.WHOLE
    ledger = play.scheduler.state.ledger
    assert ledger.prefill_count[0] == 1
    play.alarm()
    assert (ledger.prefill_count[0], ledger.decode_count[0]) == (0, 1)
    play.finished("a", 1.0)
    assert idle(play)


def test_a_streamed_request_is_waited_for() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a", streamed=True))
    play.prefilled("a", 0.5)
    assert play.scheduler.next_alarm() is None
    play.first_token("a", 0.2)
    assert play.scheduler.state.ledger.link_flows.sum() == 0


def test_nothing_rings_for_a_request_that_is_over() -> None:
    play = Play(racks(1, 1, 1))
    play.arrive(request("a"))
    play.prefilled("a", 0.5)
    play.gone("a")
    assert play.scheduler.next_alarm() is None
