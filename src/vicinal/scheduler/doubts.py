"""Where an engine contradicts its description: told once, with the setting that cures it.

A wrong block size is the most silent failure of KV awareness: every event is dropped, every prompt looks new, and all
else works.
"""

from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport


class Doubts:
    """Remembers what was told, per endpoint and pair of figures: a change of either is told again."""

    def __init__(self) -> None:
        self._told: set[tuple[EndpointId, str, int, int]] = set()

    def raised_by(self, endpoint: Endpoint, report: EndpointReport) -> list[Warn]:
        """The warnings that this report gives cause for and that were not given before."""
        found: list[Warn] = []
        if report.block_tokens in (None, endpoint.block_tokens) and report.kv_blocks in (None, endpoint.kv_blocks):
            return found
        for setting, described, reported, why in (
            ("block_tokens", endpoint.block_tokens, report.block_tokens, "none of its KV events can be used"),
            ("kv_blocks", endpoint.kv_blocks, report.kv_blocks, "its free memory is misjudged"),
        ):
            if reported is None or reported == described:
                continue
            doubt = (endpoint.id, setting, described, reported)
            if doubt in self._told:
                continue
            self._told.add(doubt)
            text = f"{endpoint.id} says {setting} = {reported}, its configuration says {described}: {why}"
            found.append(Warn(setting, endpoint.id, text))
        return found
