"""The step that runs, and how many equal ones fit into a span.

While the batch stays as it is, every decode step reads one token more per sequence than the one before, so steps grow
by a constant within each piece that the timing gives (enginemodel/timing.py), and m of them have a sum in closed form:
a leap over m steps costs no more than one.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from math import floor, sqrt

from vicinal.enginemodel.noise import Noise
from vicinal.enginemodel.sequence import Sequence
from vicinal.enginemodel.timing import Chunk, Piece, Timing


@dataclass(slots=True)
class Step:
    """The step that is running. Each further one of the same batch is longer than the one before.

    `pieces` are the durations from this step on, as far as somebody has asked. All of them are multiplied by `factor`.
    """

    started_s: float
    timing: Timing
    context_tokens: int
    pieces: list[Piece]
    factor: float
    decodes: list[Sequence]
    chunks: list[tuple[Sequence, int]]

    @property
    def ends_s(self) -> float:
        return self.started_s + self.factor * self.pieces[0].first_s

    def ends_after_s(self, steps: int) -> float:
        piece = self.pieces[0]
        if steps <= piece.steps:
            return self.started_s + self.factor * piece.sum_s(steps)
        ended_s, index = self.started_s, 0
        while steps > (piece := self._piece(index)).steps:
            ended_s += self.factor * piece.sum_s(piece.steps)
            steps -= piece.steps
            index += 1
        return ended_s + self.factor * piece.sum_s(steps)

    def lengthen(self, seconds: float) -> None:
        """This step alone takes longer; for a step that no equal one follows."""
        self.pieces = [self.pieces[0]._replace(first_s=self.pieces[0].first_s + seconds / self.factor)]

    def steps_until(self, horizon_s: float, at_most: int) -> int:
        """How many such steps end by `horizon_s`: at least 1, because the first has been decided on."""
        steps, left_s, index = 0, max(0.0, horizon_s - self.started_s) / self.factor, 0
        while steps < at_most:
            piece = self._piece(index)
            here = min(piece.steps, at_most - steps)
            if piece.sum_s(here) > left_s:
                steps += _steps_within(piece, left_s, here)
                break
            steps += here
            left_s -= piece.sum_s(piece.steps)
            index += 1
        steps = max(1, steps)
        # That is exact only up to rounding, so the neighbours decide.
        while steps < at_most and self.ends_after_s(steps + 1) <= horizon_s:
            steps += 1
        while steps > 1 and self.ends_after_s(steps) > horizon_s:
            steps -= 1
        return steps

    def _piece(self, index: int) -> Piece:
        while index >= len(self.pieces):
            done = sum(piece.steps for piece in self.pieces)
            batch = len(self.decodes)
            self.pieces.append(self.timing.decode(batch, self.context_tokens + done * batch))
        return self.pieces[index]


def make_step(
    timing: Timing,
    noise: Noise | None,
    at_s: float,
    decodes: list[Sequence],
    chunks: list[tuple[Sequence, int]],
    previous: Step | None,
) -> Step:
    """A step over these sequences; each chunk is (sequence, tokens to compute). `previous` is the one before it."""
    context = sum([s.prompt_tokens + s.generated for s in decodes])
    if chunks:
        spans = [Chunk(s.computed, s.computed + tokens) for s, tokens in chunks]
        piece = Piece(timing.mixed_s(spans, len(decodes), context), 0.0)
    else:
        piece = timing.decode(len(decodes), context)
    if noise is None:
        factor = 1.0
    elif not chunks and previous is not None and not previous.chunks and previous.decodes == decodes:
        # The same stretch goes on, so how often the driver looks changes nothing.
        factor = previous.factor
    else:
        factor = noise.factor()
    return Step(at_s, timing, context, [piece], factor, decodes, chunks)


def soonest_end(decodes: Seq[Sequence]) -> int:
    """Steps until the first of these sequences is done."""
    return min([s.output_tokens - s.generated for s in decodes])


def _steps_within(piece: Piece, span_s: float, at_most: int) -> int:
    """The root of sum_s(m) = span_s, rounded down; in the form that stays exact when the growth is next to nothing."""
    if span_s <= 0.0:
        return 0
    linear = piece.first_s - piece.growth_s / 2
    return floor(min(at_most, 2 * span_s / (linear + sqrt(linear * linear + 2 * piece.growth_s * span_s))))
