"""How much may wait in an engine's own queue (contracts/limit.py)."""
