"""Which blocks of a measured run's prompts are the same.

The token ids are known in one tokenisation. A model with another one cuts the same texts into more or fewer tokens:
there a prefix that two prompts share is taken to be as large a part of the later prompt as in the known tokenisation.
"""

from collections.abc import Sequence
from itertools import count

from vicinal.enginemodel.content import Named
from vicinal.sim.fidelity.measured import MeasuredRequest


def name_contents(
    requests: Sequence[MeasuredRequest], prompts: Sequence[Sequence[int]], block_tokens: int
) -> dict[str, Named]:
    """A content per request id. `prompts[request.position]` are the ids of its text; answers share nothing."""
    fresh = count(1)
    first_with: dict[int, str] = {}
    contents: dict[str, Named] = {}
    for request in sorted(requests, key=lambda r: r.position):
        ids = prompts[request.position]
        shared_blocks, giver = 0, ""
        chain = 0
        for block in range(len(ids) // block_tokens):
            chain = hash((chain, *ids[block * block_tokens : (block + 1) * block_tokens]))
            other = first_with.setdefault(chain, request.request_id)
            if other != request.request_id:
                shared_blocks, giver = block + 1, other
        keys: list[int] = []
        if giver:
            here = shared_blocks * block_tokens * request.input_toks // len(ids) // block_tokens
            keys = contents[giver].keys[: min(here, contents[giver].prompt_tokens // block_tokens)]
        blocks = (request.input_toks + request.output_toks) // block_tokens
        keys = keys + [next(fresh) for _ in range(blocks - len(keys))]
        contents[request.request_id] = Named(keys, request.input_toks, request.output_toks)
    return contents
