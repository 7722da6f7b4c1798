"""What is said of requests that were held or refused, from their lines; old lines have less to say and can be read."""

from collections.abc import Callable

import msgspec
import pytest

from vicinal.domain.decision import Observation
from vicinal.domain.outcome import DETAIL_CHARS_MAX, Ending
from vicinal.domain.passed_by import PassedBy
from vicinal.observe.encode import encode_observation
from vicinal.observe.explain import text, to_json
from vicinal.observe.lines import Line, ObservationRecord
from vicinal.observe.read import Case
from vicinal.observe.waits import refusal_sentence, wait_sentence

MakeObservation = Callable[..., Observation]
OLD = (
    b'{"kind":"observation","request_id":"r1","at_s":9.0,"ending":"waited_too_long","reason":"no room within 5.0 s",'
    b'"attempts":0,"ttft_s":null,"tpot_s":null,"e2e_s":5.0,"output_tokens":null,"predicted_ttft_s":null,'
    b'"predicted_tpot_s":null,"prefill_s":null,"predicted_prefill_s":null,"cached_tokens":null,'
    b'"predicted_cached_tokens":null,"moved_tokens":null,"held_s":5.0}'
)


def seen(observation: Observation) -> ObservationRecord:
    line = msgspec.json.decode(encode_observation(observation), type=Line)
    assert isinstance(line, ObservationRecord)
    return line


@pytest.mark.mission("B5")
def test_a_held_request_says_where_what_for_and_behind_whom(make_observation: MakeObservation) -> None:
    held = make_observation(
        held_s=3.2,
        band="batch",
        lane="long",
        held_for="r1-p1 to fall below 1.0 s of queued prefill",
        passed_by=PassedBy(30, 2, 5, 0),
    )
    assert wait_sentence(seen(held)) == (
        "r1 was held for 3.2 s, band batch, lane long; it waited for r1-p1 to fall below 1.0 s of queued prefill; "
        "37 turns went before: 30 of higher bands, 2 of lower bands by their age, 5 of other tenants."
    )
    first = make_observation(held_s=0.04, band="batch", lane="short", passed_by=PassedBy())
    assert wait_sentence(seen(first)) == "r1 was held for 0.04 s, band batch, lane short; nobody's turn went before."
    assert wait_sentence(seen(make_observation(held_s=0.0, band="batch"))) == ""


@pytest.mark.mission("B6")
def test_a_refused_request_says_which_quota_and_whose_doing_it_is(make_observation: MakeObservation) -> None:
    over = make_observation(ending="quota_exceeded", detail="tokens_per_s", tenant_id="acme")
    assert refusal_sentence(seen(over)) == (
        "r1 of tenant acme was refused by tokens_per_s (tenant): a quota of its tenant is used up; "
        "the same request may succeed later."
    )
    wrong = seen(make_observation(ending="too_long"))
    assert refusal_sentence(wrong).endswith("the same request would be refused again.")


@pytest.mark.parametrize("ending", list(Ending))
def test_only_refusals_are_told_as_such(make_observation: MakeObservation, ending: Ending) -> None:
    assert bool(refusal_sentence(seen(make_observation(ending=ending)))) == ending.refused


def test_a_refused_request_without_a_decision_is_explained(make_observation: MakeObservation) -> None:
    observation = seen(make_observation(ending="overloaded", detail="queue", held_s=1.0, reason="hard pressure on m"))
    case = Case("r1", [], observation)
    told = [str(part) for part in text(case)]
    assert told[:2] == [wait_sentence(observation), refusal_sentence(observation)]
    assert told[2].startswith("r1 ended as overloaded (hard pressure on m)")
    assert (to_json(case)["wait"], to_json(case)["refusal"]) == (told[0], told[1])


def test_lines_of_before_there_were_bands_can_be_read() -> None:
    old = msgspec.json.decode(OLD, type=Line)
    assert isinstance(old, ObservationRecord)
    assert wait_sentence(old) == "r1 was held for 5 s."
    assert refusal_sentence(old).startswith("r1 was refused (fleet): held for as long as it may be")
    unknown = msgspec.structs.replace(old, ending="of a later version")
    assert refusal_sentence(unknown) == ""


def test_words_are_cut_and_the_rest_stays(make_observation: MakeObservation) -> None:
    long = seen(make_observation(detail="d" * 500, held_for="w" * 5000, passed_by=PassedBy(1, 2, 3, 4)))
    assert len(long.detail) == DETAIL_CHARS_MAX
    assert len(long.held_for) == 200
    assert long.passed_by == PassedBy(1, 2, 3, 4)
