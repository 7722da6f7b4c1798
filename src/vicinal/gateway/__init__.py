"""The asyncio driver: real clock, real sockets, one scheduler."""
