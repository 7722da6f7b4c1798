"""The link between a core's process and those of its relays, and what a relay does without a core."""
