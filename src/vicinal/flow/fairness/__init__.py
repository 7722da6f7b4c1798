"""How the tenants of a band share its turns."""
