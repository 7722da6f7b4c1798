"""Layer 7: text to token ids and back, and chats to prompts, exactly as the engine behind does it.

A prefix is found by its token ids, so a tokenizer or a chat template that differs from the engine's in one token makes
every hit a miss without any error.
"""
