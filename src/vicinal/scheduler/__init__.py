"""Layer 6: the core. Events in, effects out; it owns no clock, no socket, no thread."""
