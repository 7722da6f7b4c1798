"""The body of a replayed request: a completion of token ids, streamed, of exactly the length that the trace says."""

import msgspec

from vicinal.workload.arrival import Arrival


def encode_body(model: str, arrival: Arrival) -> bytes:
    """JSON for /v1/completions. `ignore_eos` keeps the answer from ending early, so a replay does the trace's work."""
    return msgspec.json.encode(
        {
            "model": model,
            "prompt": arrival.prompt_token_ids.tolist(),
            "max_tokens": arrival.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
