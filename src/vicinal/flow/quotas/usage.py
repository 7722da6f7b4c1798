"""What a request uses: predicted at its arrival, known at its end."""

from msgspec import Struct


class Usage(Struct):
    """One field for each rate (rules.py), whose name it has in small letters. Block-seconds are blocks times the
    seconds for which the request held them."""

    requests: float = 0.0
    tokens: float = 0.0
    hbm_block_s: float = 0.0
    host_block_s: float = 0.0
    ssd_block_s: float = 0.0
    copy_bytes: float = 0.0
    remote_reads: float = 0.0
    gateway_cpu_s: float = 0.0


class Held:
    """Blocks that a request holds in one tier, over time."""

    __slots__ = ("_blocks", "_since_s", "_so_far")

    def __init__(self, now: float) -> None:
        self._blocks = 0.0
        self._since_s = now
        self._so_far = 0.0

    def hold(self, blocks: float, now: float) -> None:
        """From now on so many."""
        self._so_far = self.block_s(now)
        self._since_s = now
        self._blocks = blocks

    def block_s(self, now: float) -> float:
        """Block-seconds until now."""
        return self._so_far + self._blocks * (now - self._since_s)
