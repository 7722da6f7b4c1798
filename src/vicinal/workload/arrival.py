"""One request of a workload."""

from dataclasses import dataclass

from vicinal.workload.prompt import Prompt, TokenIds


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request that arrives `at_s` seconds of model time after the start and wants `output_tokens`, no fewer.

    `session` names the conversation that it is a turn of, `tenant` who sends it; None where the workload does not say.
    """

    at_s: float
    prompt: Prompt
    output_tokens: int
    session: str | None = None
    tenant: str | None = None

    @property
    def prompt_tokens(self) -> int:
        return self.prompt.tokens

    @property
    def prompt_token_ids(self) -> TokenIds:
        """The prompt, shape (prompt_tokens,); made at each call, so ask once per request."""
        return self.prompt.token_ids()
