"""vicinal decides which GPU serves an LLM request, in seconds of expected cost."""

__version__ = "0.1.0"
