"""What the data path counts of itself, for whoever exposes it. Plain integers: they are bumped in the hot path."""

from dataclasses import dataclass


@dataclass(slots=True)
class GatewayCounters:
    """Totals since the start.

    `estimated_prompts` had no exact token count (no tokenizer, one that differs from the engines', or a form that it
    cannot render): they are matched by their text. `token_counts_differ` are answers whose engine counted other prompt
    tokens than we did.
    `handoffs` are prefill legs that left KV to be pulled, and decode legs that ended well beside their prefill leg.
    `handoffs_missing` are prefill legs cut by length without params: decode recomputes. `stale_retries` are requests
    sent again because an engine had closed an idle connection. `keys_refused` are requests without a key that is known,
    or with one that has expired; `models_forbidden` those whose key does not open the model; `claims_ignored`
    those that named a tenant or class of service without being trusted with it. `refused_unread` are requests whose
    tenant has used up its quota of the gateway's time.
    `long_bodies` were read by a process of their own, `readers_lost` is how often that process died or was ended
    because it took too long, `bodies_unread` are requests that were refused for it.
    """

    requests: int = 0
    refused: int = 0
    keys_refused: int = 0
    models_forbidden: int = 0
    claims_ignored: int = 0
    refused_unread: int = 0
    estimated_prompts: int = 0
    token_counts_differ: int = 0
    clients_gone: int = 0
    legs_failed: int = 0
    handoffs: int = 0
    handoffs_missing: int = 0
    prefill_answers: int = 0
    streams_broken: int = 0
    stale_retries: int = 0
    connections_opened: int = 0
    long_bodies: int = 0
    readers_lost: int = 0
    bodies_unread: int = 0
