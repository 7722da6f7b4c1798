"""The vLLM dialect: KV events, metrics pages, and the hand-offs by NIXL and by Mooncake."""
