"""Kinds of prompts that may be tokenised differently by an engine and here, each for reasons of its own."""

from enum import StrEnum


class PromptKind(StrEnum):
    """A plain text differs by special tokens and vocabulary, a chat by its template too, tools by how they are told."""

    PLAIN = "plain"
    CHAT = "chat"
    TOOLS = "chat_with_tools"
