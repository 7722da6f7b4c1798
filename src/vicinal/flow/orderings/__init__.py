"""The order of one tenant's requests within a band and lane."""
