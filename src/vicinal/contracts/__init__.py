"""Layer 4: what a policy may be. Protocols only."""
