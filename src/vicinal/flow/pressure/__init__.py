"""Levels of pressure, from signals that each may be unknown (docs/pressure.md)."""
