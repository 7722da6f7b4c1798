"""The socket-less half of the KV event feed: steps of the tracker, and belief against a simulated engine."""

from dataclasses import dataclass, field

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.domain.events import BlocksCleared, BlocksRemoved, BlocksStored, Event
from vicinal.domain.ids import EndpointId, EngineHash
from vicinal.gateway.feeds.following import Following
from vicinal.gateway.feeds.sequence import LOOK_BACK, RECENT, SequenceTracker, Step

ENGINE = EndpointId("p0")


def test_in_order_then_a_hole_then_older_numbers() -> None:
    tracker = SequenceTracker()
    for number in range(3):
        assert tracker.heard(number, b"%d" % number) is Step.APPLY
        tracker.applied(number, b"%d" % number)
    assert tracker.next == 3
    assert tracker.heard(4, b"4") is Step.GAP
    assert tracker.heard(2, b"2") is Step.REPEAT
    assert tracker.heard(2, b"another life's") is Step.RESTART
    assert tracker.heard(0, b"0") is Step.REPEAT
    for number in range(3, RECENT + 2):
        tracker.applied(number, b"%d" % number)
    assert tracker.heard(1, b"1") is Step.DOUBT
    assert tracker.heard(2, b"2") is Step.REPEAT
    tracker.restart()
    assert tracker.heard(0, b"0") is Step.APPLY


def test_live_messages_that_a_replay_brought_too_are_repeats() -> None:
    tracker = SequenceTracker()
    assert tracker.begin_replay() == 0
    for number in range(5):
        assert tracker.replayed(number, b"%d" % number) is Step.APPLY
        tracker.applied(number, b"%d" % number)
    assert tracker.end_replay()
    assert tracker.heard(3, b"3") is Step.REPEAT
    assert tracker.heard(3, b"three") is Step.RESTART


def test_a_replay_asks_for_the_last_known_batch_and_trusts_only_a_life_that_has_it() -> None:
    tracker = SequenceTracker()
    tracker.applied(7, b"7")
    assert tracker.begin_replay() == 7
    assert tracker.replayed(8, b"8") is Step.GAP
    assert tracker.replayed(7, b"7") is Step.REPEAT
    assert tracker.replayed(8, b"8") is Step.APPLY
    assert tracker.replayed(9, b"9") is Step.GAP
    tracker.begin_replay()
    assert tracker.replayed(7, b"seven") is Step.RESTART
    tracker.begin_replay()
    assert not tracker.end_replay()


def test_a_replay_looks_further_back_than_the_last_batch() -> None:
    """A forwarder hid a restart, and the new life's first message to come through had just the number awaited."""
    tracker = SequenceTracker()
    for number in range(20):
        tracker.applied(number, b"old %d" % number)
    assert tracker.heard(20, b"new 20") is Step.APPLY
    tracker.applied(20, b"new 20")
    assert tracker.begin_replay() == 21 - LOOK_BACK
    assert tracker.replayed(21 - LOOK_BACK, b"new") is Step.RESTART


def test_numbers_before_a_hole_prove_nothing_of_those_after_it() -> None:
    tracker = SequenceTracker()
    tracker.applied(0, b"0")
    tracker.applied(7, b"7")
    assert tracker.replay_from() == 7
    assert tracker.heard(0, b"0") is Step.DOUBT


@dataclass
class Engine:
    """A cache, its numbered batches, and a bounded buffer of them."""

    buffered: int
    life: int = 0
    stamp: int = 0
    held: set[EngineHash] = field(default_factory=set)
    sent: list[bytes] = field(default_factory=list)

    def restart(self) -> None:
        self.life += 1
        self.held = set()
        self.sent = []

    def step(self, store: set[int], clear: bool) -> list[bytes]:
        """One batch: removes what is held and named, stores what is named and not held."""
        self.stamp += 1
        removed = sorted(h for h in store if h in self.held)
        stored = sorted(h for h in store if h not in self.held)
        events: list[object] = [["AllBlocksCleared"]] if clear else []
        if clear:
            self.held = set()
            stored, removed = sorted(store), []
        events += [["BlockRemoved", removed, "GPU"]] if removed else []
        events += [["BlockStored", stored, None, [1] * len(stored), 1, None, "GPU"]] if stored else []
        self.held = (self.held - set(removed)) | set(stored)
        self.sent.append(msgspec.msgpack.encode([float(self.stamp), events, 0]))
        return self.frames(len(self.sent) - 1)

    def frames(self, number: int) -> list[bytes]:
        return [b"t", number.to_bytes(8, "big"), self.sent[number]]

    def replay(self, start: int) -> list[list[bytes]]:
        oldest = max(start, len(self.sent) - self.buffered)
        return [[b"", *self.frames(n)] for n in range(oldest, len(self.sent))] + [[b"", b"", b"\xff" * 8, b""]]


class Belief:
    """What a reader of the posted events believes; checks their order."""

    def __init__(self) -> None:
        self.held: set[EngineHash] = set()
        self.posted: list[Event] = []
        self.at = (0, -1)

    def post(self, event: Event) -> None:
        assert isinstance(event, BlocksStored | BlocksRemoved | BlocksCleared)
        assert (event.incarnation, event.sequence) >= self.at
        self.at = (event.incarnation, event.sequence)
        self.posted.append(event)
        match event:
            case BlocksStored():
                self.held |= set(event.hashes)
            case BlocksRemoved():
                self.held -= set(event.hashes)
            case BlocksCleared():
                self.held.clear()


def catch_up(following: Following, engine: Engine) -> None:
    """Replay, once more from the start after a restart; the second one is always complete."""
    for _ in range(2):
        for frames in engine.replay(following.begin_replay()):
            step = following.replayed(frames)
            if step is None:
                return
            if step is Step.RESTART:
                break
    pytest.fail("a replay from the start showed another restart")


_actions = st.one_of(
    st.tuples(st.sampled_from(["live", "lost", "late"]), st.frozensets(st.integers(0, 5), max_size=3), st.booleans()),
    st.tuples(st.sampled_from(["restart", "reconnect"])),
)


@settings(max_examples=200)
@given(st.integers(1, 4), st.lists(_actions, max_size=30))
def test_belief_is_never_more_than_the_truth_and_grows_back(buffered: int, actions: list[tuple[object, ...]]) -> None:
    """Live messages may be lost or arrive only after a replay; engines restart, with or without having spoken."""
    engine, belief = Engine(buffered), Belief()
    following = Following(ENGINE, belief.post, lambda kind, text: pytest.fail(f"{kind}: {text}"))
    catch_up(following, engine)
    queue: list[list[bytes]] = []

    def deliver() -> None:
        for frames in queue:
            if not following.hear(frames):
                catch_up(following, engine)
                following.settle(frames, replayed=True)
        queue.clear()

    for action in actions:
        match action:
            case ("live" | "lost" | "late" as how, frozenset() as store, bool() as clear):
                frames = engine.step(set(store), clear)
                if how != "lost":
                    queue.append(frames)
                if how == "live":
                    deliver()
                    assert belief.held <= engine.held
            case ("restart",):
                engine.restart()
                queue.clear()
                catch_up(following, engine)
                assert belief.held <= engine.held
            case _:
                catch_up(following, engine)
                deliver()
                assert belief.held <= engine.held
    catch_up(following, engine)
    deliver()
    assert belief.held <= engine.held
    if engine.buffered >= len(engine.sent):
        assert belief.held == engine.held


_rough = st.one_of(
    st.tuples(st.sampled_from(["live", "lost"]), st.frozensets(st.integers(0, 5), max_size=3), st.booleans()),
    st.tuples(st.sampled_from(["restart", "hidden restart", "reconnect", "aside"])),
)


@settings(max_examples=300)
@given(st.integers(1, 30), st.lists(st.tuples(_rough, st.sampled_from([None, None, 0, 1, 2])), max_size=30))
def test_replays_that_break_cost_knowledge_and_never_truth(
    buffered: int, actions: list[tuple[tuple[object, ...], int | None]]
) -> None:
    """Each action comes with how many messages a replay brings before it breaks off, None for all of them."""
    engine, belief = Engine(buffered), Belief()
    following = Following(ENGINE, belief.post, lambda kind, text: pytest.fail(f"{kind}: {text}"))

    def replay(whole: bool, stops: int | None) -> bool:
        """As the feed does it: once more after a restart, unless it breaks off."""
        for attempt in range(2):
            start = following.replay_from() if whole and not attempt else None
            if whole and not attempt and following.incomplete:
                following.rebuild()
            asked = following.begin_replay()
            for number, frames in enumerate(engine.replay(asked if start is None else start)):
                if stops is not None and number >= stops:
                    following.break_replay()
                    return False
                step = following.replayed(frames)
                if step is None:
                    return True
                if step is Step.RESTART:
                    break
        pytest.fail("two restarts in a row")

    def connect(stops: int | None) -> None:
        following.connected()
        if not replay(False, stops):
            following.doubt()

    connect(None)
    for action, stops in actions:
        match action:
            case ("live" | "lost" as how, frozenset() as store, bool() as clear):
                frames = engine.step(set(store), clear)
                if how == "live":
                    if not following.hear(frames):
                        following.settle(frames, replayed=replay(False, stops))
                    assert belief.held <= engine.held
            case ("restart",):
                engine.restart()
                connect(stops)
                assert belief.held <= engine.held
            case ("hidden restart",):
                if following.incomplete or engine.sent:
                    engine.restart()
                    engine.stamp += 1000
                    if replay(True, None):
                        assert belief.held <= engine.held
            case ("reconnect",):
                connect(stops)
                if stops is None:
                    assert belief.held <= engine.held
            case _:
                if replay(True, stops):
                    assert belief.held <= engine.held
    replay(True, None)
    assert belief.held <= engine.held
    if engine.buffered >= len(engine.sent):
        assert belief.held == engine.held
        assert not following.incomplete


def test_a_batch_that_cannot_be_decoded_clears_what_its_removals_may_have_named() -> None:
    posted: list[Event] = []
    complaints: list[str] = []
    following = Following(ENGINE, posted.append, lambda kind, text: complaints.append(kind))
    engine = Engine(buffered=9)
    assert following.hear(engine.step({1}, False))
    assert following.hear([b"t", (1).to_bytes(8, "big"), b"\xc1"])
    assert [type(event) for event in posted] == [BlocksStored, BlocksCleared]
    assert posted[1] == BlocksCleared(ENGINE, 0, 1, "gap")
    assert following.hear([b"t", (2).to_bytes(8, "big"), b"\xc1"])
    assert len(posted) == 2
    assert complaints == ["undecodable_msgpack"] * 2
    assert following.counts["undecodable_msgpack"] == 2


def test_a_removal_that_cannot_be_read_clears_and_a_store_that_cannot_only_hides() -> None:
    posted: list[Event] = []
    complaints: list[str] = []
    following = Following(ENGINE, posted.append, lambda kind, text: complaints.append(kind))
    engine = Engine(buffered=9)
    following.hear(engine.step({1}, False))
    for number, bad in ((1, ["BlockStored", "no hashes"]), (2, ["BlockRemoved", "no hashes"])):
        stored = ["BlockStored", [10 + number], None, [1], 1, None, "GPU"]
        payload = msgspec.msgpack.encode([0.0, [stored, bad], 0])
        following.hear([b"t", number.to_bytes(8, "big"), payload])
    assert [getattr(event, "hashes", ()) for event in posted] == [(1,), (11,), ()]
    assert posted[2] == BlocksCleared(ENGINE, 0, 2, "gap")
    assert complaints == ["ignored_malformed_event", "ignored_malformed_removal"]


def test_messages_that_are_not_three_frames_are_counted_and_change_nothing() -> None:
    posted: list[Event] = []
    following = Following(ENGINE, posted.append, lambda kind, text: None)
    for frames in ([], [b"t"], [b"t", b"short", b""], [b"a"] * 4, [b"t", b"\xff" * 8, b""]):
        assert following.hear(frames)
    assert not posted
    assert following.counts == {"undecodable_frames": 3, "undecodable_sequence": 2}


def test_only_the_first_publisher_behind_an_address_is_followed() -> None:
    """Their numbers would look like endless restarts."""
    posted: list[Event] = []
    complaints: list[str] = []
    following = Following(ENGINE, posted.append, lambda kind, text: complaints.append(kind))
    ranks = [Engine(buffered=9), Engine(buffered=9)]
    for number in range(3):
        for rank, engine in enumerate(ranks):
            _, sequence, payload = engine.step({10 * rank + number}, False)
            assert following.hear([b"kv@rank%d" % rank, sequence, payload])
    assert [e.hashes for e in posted if isinstance(e, BlocksStored)] == [(0,), (1,), (2,)]
    assert following.counts["other_topic"] == 3
    assert set(complaints) == {"other_topic"}
    following.connected()
    assert following.hear([b"kv@new-address", *ranks[0].step({3}, False)[1:]])
    assert following.counts["other_topic"] == 3


def test_a_connection_that_nobody_vouches_for_voids_what_was_believed() -> None:
    posted: list[Event] = []
    following = Following(ENGINE, posted.append, lambda kind, text: None)
    following.doubt()
    assert posted == [], "nothing was believed"
    engine = Engine(buffered=9)
    following.hear(engine.step({1}, False))
    following.doubt()
    assert posted[-1] == BlocksCleared(ENGINE, 0, 1, "gap")
    assert following.incomplete
    assert following.replay_from() == 0


def test_what_was_given_up_comes_back_with_a_replay_from_the_start() -> None:
    engine, belief = Engine(buffered=9), Belief()
    following = Following(ENGINE, belief.post, lambda kind, text: None)
    for _ in range(2):
        following.hear(engine.step({1}, False))
    engine.step({2}, False)
    last = engine.step({3}, False)
    assert not following.hear(last)
    following.settle(last, replayed=False)
    assert belief.held == {3}
    assert following.incomplete
    answer = engine.replay(following.replay_from())
    following.rebuild()
    following.begin_replay()
    for frames in answer:
        following.replayed(frames)
    assert belief.held == engine.held == {2, 3}
    assert not following.incomplete
    assert following.incarnation == 1


def test_older_builds_replay_without_a_topic() -> None:
    posted: list[Event] = []
    following = Following(ENGINE, posted.append, lambda kind, text: None)
    engine = Engine(buffered=9)
    engine.step({1}, False)
    assert following.begin_replay() == 0
    assert following.replayed([b"", (0).to_bytes(8, "big"), engine.sent[0]]) is Step.APPLY
    assert following.replayed([b"", b"\xff" * 8, b""]) is None
    assert [type(event) for event in posted] == [BlocksStored]
    assert following.counts == {"replays": 1, "replayed_batches": 1, "batches": 1, "events": 1}
