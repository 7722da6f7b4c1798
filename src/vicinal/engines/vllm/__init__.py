"""The vLLM dialect: KV events, metrics pages and request bodies. SGLang's KV events and pages have the same shapes."""
