"""Prompts of hash ids: the id h stands for a block of tokens, here the first ones of the stream h."""

from collections.abc import Sequence

from vicinal.workload.formats.lines import Lines
from vicinal.workload.formats.row import BadRow, private
from vicinal.workload.prompt import Piece

_IDS = 1 << 64


class Blocks:
    """Makes pieces of hash ids. Equal full blocks are one object, so that a trace's memory grows with its distinct
    blocks; `name` is the field's name in errors."""

    def __init__(self, name: str, block_tokens: int) -> None:
        self._name = name
        self._block_tokens = block_tokens
        self._full: dict[int, Piece] = {}

    def last_partial(self, ids: Sequence[int], prompt_tokens: int) -> tuple[Piece, ...]:
        """Every token is in a block; the last one has what remains, a prefix of its stream. Raises BadRow."""
        blocks = -(-prompt_tokens // self._block_tokens)
        self._check(ids, blocks, prompt_tokens)
        rest = prompt_tokens - self._block_tokens * (blocks - 1)
        return (*map(self._piece, ids[:-1]), Piece(ids[-1], rest))

    def full_only(self, ids: Sequence[int], prompt_tokens: int, lines: Lines) -> tuple[Piece, ...]:
        """Only full blocks have ids; what remains is text of this row alone. Raises BadRow."""
        blocks, rest = divmod(prompt_tokens, self._block_tokens)
        self._check(ids, blocks, prompt_tokens)
        known = tuple(map(self._piece, ids))
        return (*known, private(lines, rest)) if rest else known

    def _piece(self, block_id: int) -> Piece:
        piece = self._full.get(block_id)
        if piece is None:
            piece = self._full[block_id] = Piece(block_id, self._block_tokens)
        return piece

    def _check(self, ids: Sequence[int], blocks: int, prompt_tokens: int) -> None:
        if len(ids) != blocks:
            raise BadRow(
                f"{len(ids)} {self._name} for {prompt_tokens} prompt tokens; "
                f"with {self._block_tokens} tokens each it takes {blocks}"
            )
        if ids and min(ids) < 0:
            raise BadRow(f"hash id {min(ids)} is negative")
        if ids and max(ids) >= _IDS:
            raise BadRow(f"hash id {max(ids)} has more than 64 bits")
