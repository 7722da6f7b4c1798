"""How much a tenant may use: rates with bursts, requests at a time, KV that it makes us keep."""
