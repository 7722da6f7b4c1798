"""The measurement of open streams works, and no stream is lost in it."""

import pytest

from tests.ports import free_row
from tests.soak.idle_streams import measure


async def test_streams_stay_open_over_two_relays_and_leave_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    await measure(60, 2, free_row(2), settle_s=0.5)
    said = capsys.readouterr().out
    assert "60 streams opened" in said
    assert " 0 of them lost" in said
    left = {line.split(":")[0]: int(line.split()[-3]) for line in said.splitlines() if line.endswith("left")}
    assert set(left) == {"serve", "core", "relay-1", "relay-2"}
    assert all(descriptors < 60 for name, descriptors in left.items() if name.startswith("relay")), left
