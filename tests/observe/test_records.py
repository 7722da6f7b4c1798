"""The decision log on disk: buffering, rotation, failing disks, and reading it back."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from vicinal.domain.decision import Decision, Observation
from vicinal.observe import records
from vicinal.observe.lines import DecisionRecord, ObservationRecord
from vicinal.observe.read import NoSuchRequest, RecordError, find, last, slowest
from vicinal.observe.read import records as read_all
from vicinal.observe.records import DecisionLog, record_files

MakeDecision = Callable[..., Decision]
MakeObservation = Callable[..., Observation]


def refuse(text: str) -> None:
    pytest.fail(f"nothing should fail here: {text}")


def text_of(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in record_files(directory))


def test_lines_wait_for_half_a_second_or_a_tick_or_the_close(tmp_path: Path, make_decision: MakeDecision) -> None:
    with DecisionLog(tmp_path, complain=refuse) as log:
        log.write(make_decision(at_s=10.0))
        log.write(make_decision(at_s=10.49))
        assert text_of(tmp_path) == b""
        log.tick(10.4999)
        assert text_of(tmp_path) == b""
        log.write(make_decision(at_s=10.5))
        assert text_of(tmp_path).count(b"\n") == 3
        log.write(make_decision(at_s=11.0))
        log.tick(11.5)
        assert text_of(tmp_path).count(b"\n") == 4
        log.write(make_decision(at_s=12.0))
    assert text_of(tmp_path).count(b"\n") == 5
    assert (log.lines, log.lines_lost) == (5, 0)


def test_a_full_buffer_is_written_at_once(tmp_path: Path, make_decision: MakeDecision) -> None:
    with DecisionLog(tmp_path, complain=refuse, buffer_bytes=2000) as log:
        log.write(make_decision(at_s=1.0))
        assert text_of(tmp_path) == b""
        log.write(make_decision(at_s=1.0))
        assert text_of(tmp_path).count(b"\n") == 2


def test_files_rotate_and_the_oldest_go(tmp_path: Path, make_decision: MakeDecision) -> None:
    with DecisionLog(tmp_path, file_bytes_max=5000, files_max=3, complain=refuse) as log:
        for number in range(40):
            log.write(make_decision(request_id=f"r{number}", at_s=float(number)))
    files = record_files(tmp_path)
    assert len(files) == 3
    assert all(path.stat().st_size <= 5000 for path in files)
    assert files[-1].name > "decisions-00000004.jsonl"
    ids = [line.request_id for line in read_all(tmp_path)]
    assert ids == [f"r{number}" for number in range(40 - len(ids), 40)]


def test_a_line_longer_than_a_file_still_gets_one(tmp_path: Path, make_decision: MakeDecision) -> None:
    with DecisionLog(tmp_path, file_bytes_max=100, files_max=5, complain=refuse) as log:
        for number in range(3):
            log.write(make_decision(request_id=f"r{number}"))
    assert [path.read_bytes().count(b"\n") for path in record_files(tmp_path)] == [1, 1, 1]


def test_a_new_start_begins_a_new_file_beside_foreign_ones(tmp_path: Path, make_decision: MakeDecision) -> None:
    (tmp_path / "notes.txt").write_text("not ours")
    for number in range(2):
        with DecisionLog(tmp_path, complain=refuse) as log:
            log.write(make_decision(request_id=f"r{number}"))
    assert [path.name for path in record_files(tmp_path)] == ["decisions-00000001.jsonl", "decisions-00000002.jsonl"]
    assert [line.request_id for line in read_all(tmp_path)] == ["r0", "r1"]


class FullDisk:
    """Takes `room` bytes, then fails as a full disk does."""

    def __init__(self, path: Path, room: int) -> None:
        self._file = path.open("ab", buffering=0)
        self._room = room

    def write(self, block: bytes) -> int:
        taken = block[: self._room]
        self._room -= len(taken)
        if not taken:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._file.write(taken)

    def close(self) -> None:
        self._file.close()


def test_a_full_disk_is_said_once_and_never_raised(
    tmp_path: Path, make_decision: MakeDecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = [10, 0, 0, 10_000, 0]
    complaints: list[str] = []

    def next_file(self: DecisionLog) -> FullDisk:
        number = 6 - len(room)
        return FullDisk(tmp_path / f"decisions-{number:08d}.jsonl", room.pop(0))

    monkeypatch.setattr(records.DecisionLog, "_next_file", next_file)
    log = DecisionLog(tmp_path, complain=complaints.append, buffer_bytes=1)
    for number in range(4):
        log.write(make_decision(request_id=f"r{number}"))
    assert len(complaints) == 1
    assert str(tmp_path) in complaints[0]
    assert (log.lines, log.lines_lost) == (4, 3)
    assert [line.request_id for line in read_all(tmp_path)] == ["r3"]
    log.close()


def test_a_second_outage_is_said_again(
    tmp_path: Path, make_decision: MakeDecision, monkeypatch: pytest.MonkeyPatch
) -> None:
    complaints: list[str] = []
    log = DecisionLog(tmp_path / "record", complain=complaints.append, buffer_bytes=1)
    real = DecisionLog._append

    def broken(self: DecisionLog, block: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    for outage in (1, 2):
        monkeypatch.setattr(DecisionLog, "_append", broken)
        log.write(make_decision())
        log.write(make_decision())
        monkeypatch.setattr(DecisionLog, "_append", real)
        log.write(make_decision())
        assert len(complaints) == outage
    assert log.lines_lost == 4
    log.close()


def test_a_directory_that_cannot_be_made_is_an_error_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        DecisionLog(tmp_path / "file" / "record", complain=refuse)


def fill(directory: Path, make_decision: MakeDecision, make_observation: MakeObservation) -> None:
    with DecisionLog(directory, file_bytes_max=6000, files_max=50, complain=refuse) as log:
        for number in range(12):
            log.write(make_decision(request_id=f"req-{number:02d}", at_s=float(number)))
        log.write(make_decision(request_id="req-03", attempt=2, at_s=12.0))
        for number in range(0, 12, 2):
            log.write(make_observation(request_id=f"req-{number:02d}", at_s=20.0, ttft_s=number / 10))
        log.write(make_observation(request_id="req-01", at_s=21.0, ttft_s=None))
        log.write(make_observation(request_id="elsewhere", at_s=21.0, ttft_s=99.0))


def test_find_joins_decisions_and_observation(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    fill(tmp_path, make_decision, make_observation)
    assert len(record_files(tmp_path)) > 3
    case = find(tmp_path, "req-03")
    assert [decision.attempt for decision in case.decisions] == [1, 2]
    assert case.observation is None
    assert case.decision is case.decisions[-1]
    assert find(tmp_path, "req-10").observation is not None
    assert find(tmp_path, "els").decision is None


def test_find_takes_a_prefix_and_names_what_it_could_mean(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    fill(tmp_path, make_decision, make_observation)
    with DecisionLog(tmp_path, complain=refuse) as log:
        log.write(make_decision(request_id="req-1"))
        log.write(make_decision(request_id='odd "," id'))
    assert find(tmp_path, "req-11").request_id == "req-11"
    assert find(tmp_path, "req-1").request_id == "req-1"
    assert find(tmp_path, 'odd "').request_id == 'odd "," id'
    with pytest.raises(NoSuchRequest, match="13 requests on record begin with 'req-': req-00, req-01"):
        find(tmp_path, "req-")
    with pytest.raises(NoSuchRequest, match="no request 'x' is on record in"):
        find(tmp_path, "x")


def test_last_is_the_last_decided_even_when_observations_follow(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    with pytest.raises(NoSuchRequest, match="no decision"):
        last(tmp_path)
    fill(tmp_path, make_decision, make_observation)
    case = last(tmp_path)
    assert (case.request_id, len(case.decisions)) == ("req-03", 2)


def test_slowest_by_observed_ttft(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    fill(tmp_path, make_decision, make_observation)
    found = slowest(tmp_path, 3)
    assert [case.request_id for case in found] == ["req-10", "req-08"]
    assert [len(case.decisions) for case in found] == [1, 1]
    assert [case.request_id for case in slowest(tmp_path, 50)][-1] == "req-00"


def test_a_torn_last_line_is_left_out_in_any_file(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    fill(tmp_path, make_decision, make_observation)
    whole = [line.request_id for line in read_all(tmp_path)]
    for path in record_files(tmp_path):
        with path.open("ab") as file:
            file.write(b'{"kind":"decision","request_id":"torn","mo')
    assert [line.request_id for line in read_all(tmp_path)] == whole
    assert last(tmp_path).request_id == "req-03"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"kind":"decision","request_id":"bad"}\n', "missing required field"),
        (b'{"kind":"decision","request_id":"bad"\n', "truncated"),
        (b"hello\n", "not a line of a decision record"),
        (b'{"kind":"decision","request_id":"\xff"}\n', "UTF-8|utf-8"),
    ],
)
def test_an_error_names_file_and_line(tmp_path: Path, make_decision: MakeDecision, line: bytes, reason: str) -> None:
    with DecisionLog(tmp_path, complain=refuse) as log:
        log.write(make_decision())
    path = record_files(tmp_path)[0]
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(RecordError, match=reason) as caught:
        list(read_all(tmp_path))
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert (caught.value.path, caught.value.number) == (path, 2)


def test_reading_goes_on_when_a_file_is_rotated_away(
    tmp_path: Path, make_decision: MakeDecision, make_observation: MakeObservation
) -> None:
    fill(tmp_path, make_decision, make_observation)
    reading = read_all(tmp_path)
    first = next(reading)
    assert isinstance(first, DecisionRecord)
    record_files(tmp_path)[1].unlink()
    rest = list(reading)
    assert isinstance(rest[-1], ObservationRecord)
