"""Priority bands: whose turn comes first when not everybody can be served at once."""

from enum import StrEnum


class Band(StrEnum):
    """From the most urgent to the least. A class of service has one; a tenant cannot choose it by itself.

    `SYSTEM` is for probes and operators, `BACKGROUND` for work that nobody waits for, such as copies: there recovery
    goes before warm-up, by `Request.priority`.
    """

    SYSTEM = "system"
    INTERACTIVE = "interactive"
    DEFAULT = "default"
    BATCH = "batch"
    BACKGROUND = "background"

    @property
    def rank(self) -> int:
        """0 is the most urgent."""
        return _RANKS[self]


_RANKS = {band: rank for rank, band in enumerate(Band)}
