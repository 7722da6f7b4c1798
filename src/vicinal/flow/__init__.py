"""Whose turn it is: bands, lanes and tenants, and what keeps a request waiting. One rule per file."""
