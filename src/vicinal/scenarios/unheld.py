"""Policies are compared with nothing held: what waits, waits at engines, as it does behind the routers of others."""

UNHELD = """
[flow]
limit = "fixed:seconds=1e9"
long_share = 1.0
pressure_sheds = false
pressure_soft_s = 0.0
pressure_hard_s = 0.0
"""
