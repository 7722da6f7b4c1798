"""Dialects: what engines say and want to hear, as plain data. No socket, no clock: drivers hand bytes in and out."""
