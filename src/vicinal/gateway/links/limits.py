"""Bounds of the links between core and relays, in wall seconds and bytes."""

BEAT_S = 1.0
"""Each end says something so often."""

SILENCE_S = 10.0
"""An end that says nothing for so long is stuck. A core that takes over a fleet of a thousand endpoints needs 3 s."""

UNREAD_BYTES_MAX = 64 * 1024 * 1024
"""What may be written to an end that does not read."""

RETRY_S_MIN, RETRY_S_MAX = 0.05, 1.0
"""Pauses of a relay that looks for its core."""
