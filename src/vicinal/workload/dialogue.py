"""A dialogue: each turn's prompt is all that was said before, the answers among it, and new text."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from vicinal.workload.arrival import Turn
from vicinal.workload.prompt import Piece, Prompt, Vocabulary


def dialogue(
    opening: Piece,
    said: Iterable[tuple[float, int, int]],
    streams: Iterator[int],
    vocabulary: Vocabulary,
    prompt_tokens_max: int,
) -> tuple[Turn, ...]:
    """Turns after `opening`, from (pause before it in s, new tokens, answer tokens) each.

    It ends before the first prompt that is longer than `prompt_tokens_max`, so it may have no turn. An answer has a
    stream of its own, which stands in for the engine's tokens; the last answer is repeated by nobody and has no name.
    """
    turns: list[Turn] = []
    pieces = [opening]
    for pause_s, new_tokens, output_tokens in said:
        pieces.append(Piece(next(streams), new_tokens))
        prompt = Prompt(tuple(pieces), vocabulary)
        if prompt.tokens > prompt_tokens_max:
            break
        answer = Piece(next(streams), output_tokens)
        turns.append(Turn(pause_s, prompt, output_tokens, answer))
        pieces.append(answer)
    if turns:
        turns[-1] = replace(turns[-1], answer=None)
    return tuple(turns)
