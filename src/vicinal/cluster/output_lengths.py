"""How long an answer will be: the mean of those that the model gave lately, capped by what the client allows.

A mean is all that a placement needs: what matters is how long a request will hold its place in a batch, and the
spread around the mean is larger than what a finer rule would explain.
"""

from vicinal.domain.ids import ModelId

PRIOR_TOKENS = 256.0
"""Expected tokens of a model that has not answered yet; forgotten with its first answers."""

MEMORY_ANSWERS = 500
"""After this many answers the mean becomes exponential, so that it follows a change of traffic."""


class OutputLengths:
    """A running mean of output tokens per model."""

    def __init__(self) -> None:
        self._means: dict[ModelId, tuple[int, float]] = {}

    def observe(self, model: ModelId, output_tokens: int) -> None:
        """An answer of `model` ended after `output_tokens`."""
        count, mean = self._means.get(model, (0, PRIOR_TOKENS))
        count = min(count + 1, MEMORY_ANSWERS)
        self._means[model] = (count, mean + (output_tokens - mean) / count)

    def predict(self, model: ModelId, max_output_tokens: int, *, ignore_eos: bool = False) -> int:
        """Expected output tokens, at least 1. With `ignore_eos` an answer always runs to its limit."""
        if ignore_eos:
            return max_output_tokens
        _, mean = self._means.get(model, (0, PRIOR_TOKENS))
        return max(1, min(max_output_tokens, round(mean)))
