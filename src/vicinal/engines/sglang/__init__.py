"""The SGLang dialect: KV events, metrics pages and the bootstrap hand-off."""
