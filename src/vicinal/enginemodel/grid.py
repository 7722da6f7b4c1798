"""Seconds of compute as measured: the truth that an engine can run on while the scheduler prices with a `Fit`.

    decode only   S(B, ctx / B)                          bilinear between the measured batches and contexts
    mixed         max(D(tokens) + c pairs, S(B, 0)) + S(B, ctx / B) - S(B, 0)

D(m) is what m tokens take without attention: the measured prefill of m tokens less c m^2 / 2, between measured points
linear. `tokens` are those of all chunks and one per decoding sequence, because all of them go through the same matrix
products; a short chunk costs nearly what no chunk costs, since the weights are read anyway. On the grids' own prefills
of cached prompts and of several prompts at once, which were not used, this is within 5 %.

Outside the measured points everything goes on as in the last interval. More context never makes a step shorter; more
sequences can, by some per cent, as they were measured to.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from vicinal.enginemodel.gridfigures import BATCHES, CONTEXTS, DECODE_MS, PREFILL_MS, PROMPT_TOKENS
from vicinal.enginemodel.profiles import profile
from vicinal.enginemodel.timing import Chunk, Piece


@dataclass(frozen=True, slots=True)
class Grid:
    """`dense_s[i]` belongs to `prompt_tokens[i]`, `decode_s[i][j]` to `batches[i]` sequences of `contexts[j]` tokens.

    The axes are strictly increasing and have two values or more. Rows of `decode_s` never fall.
    """

    name: str
    prompt_tokens: tuple[int, ...]
    dense_s: tuple[float, ...]
    s_per_pair: float
    batches: tuple[int, ...]
    contexts: tuple[int, ...]
    decode_s: tuple[tuple[float, ...], ...]
    source: str

    def decode(self, sequences: int, context_tokens: int) -> Piece:
        """Holds until the mean context passes the next measured one."""
        mean = context_tokens / sequences
        i = _interval(self.contexts, mean)
        left, right = self.contexts[i], self.contexts[i + 1]
        left_s, right_s = self._at(sequences, i), self._at(sequences, i + 1)
        first_s = _line(left, right, left_s, right_s, mean)
        growth_s = (right_s - left_s) / (right - left)
        if right == self.contexts[-1]:
            return Piece(first_s, growth_s)
        return Piece(first_s, growth_s, (right * sequences - context_tokens) // sequences + 1)

    def mixed_s(self, chunks: Sequence[Chunk], sequences: int, context_tokens: int) -> float:
        """Seconds of one step with chunks. Never less than without them."""
        seconds = self._dense_s(sequences + sum(chunk.tokens for chunk in chunks))
        seconds += self.s_per_pair * sum(chunk.pairs for chunk in chunks)
        if not sequences:
            return seconds
        without_context_s = self.decode(sequences, 0).first_s
        return max(seconds, without_context_s) + self.decode(sequences, context_tokens).first_s - without_context_s

    def _at(self, sequences: int, column: int) -> float:
        """A decode step of that many sequences, each with contexts[column] tokens."""
        i = _interval(self.batches, sequences)
        left_s, right_s = self.decode_s[i][column], self.decode_s[i + 1][column]
        return _line(self.batches[i], self.batches[i + 1], left_s, right_s, sequences)

    def _dense_s(self, tokens: int) -> float:
        i = _interval(self.prompt_tokens, tokens)
        left, right = self.prompt_tokens[i], self.prompt_tokens[i + 1]
        return _line(left, right, self.dense_s[i], self.dense_s[i + 1], tokens)


def truth(name: str) -> Grid:
    """The grid of that profile; raises UnknownProfileError, which names the nearest.

    Where a longer context was measured to be faster (0.07 %, once), the row stays level instead.
    """
    fit = profile(name)
    prefill_s = [ms * 1e-3 for ms in PREFILL_MS[name]]
    pairs = [n * n / 2 for n in PROMPT_TOKENS]
    return Grid(
        name=name,
        prompt_tokens=PROMPT_TOKENS,
        dense_s=tuple(s - fit.prefill_s_per_pair * n for s, n in zip(prefill_s, pairs, strict=True)),
        s_per_pair=fit.prefill_s_per_pair,
        batches=BATCHES,
        contexts=CONTEXTS,
        decode_s=tuple(_row([ms * 1e-3 for ms in row]) for row in DECODE_MS[name]),
        source="NVIDIA AIConfigurator 0.12 grids (Apache-2.0)",
    )


def _row(measured_s: list[float]) -> tuple[float, ...]:
    """A row that never falls, continued to the last context as in its last interval."""
    row = list(accumulate(measured_s, max))
    for column in range(len(row), len(CONTEXTS)):
        row.append(_line(CONTEXTS[column - 2], CONTEXTS[column - 1], row[-2], row[-1], CONTEXTS[column]))
    return tuple(row)


def _interval(axis: tuple[int, ...], value: float) -> int:
    """The last i with axis[i] <= value that has a right neighbour; 0 when the value is left of them all."""
    return min(max(0, bisect_right(axis, value) - 1), len(axis) - 2)


def _line(x0: float, x1: float, y0: float, y1: float, x: float) -> float:
    """The straight line through (x0, y0) and (x1, y1) at x; exact at both."""
    share = (x - x0) / (x1 - x0)
    return y0 * (1.0 - share) + y1 * share
