"""Layer 7: one TOML file becomes frozen values, or an error that names the line.

The schema (schema.py, fleet.py) is the single source: reading, defaults, limits, documentation and writing all come
from it. A key that is not in it is an error, because a misspelt key that is ignored is a setting that silently does
not hold.
"""
