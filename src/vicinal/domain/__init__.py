"""Layer 0: the vocabulary. Frozen values, no behaviour that needs the world."""
