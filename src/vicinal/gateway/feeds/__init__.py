"""Feeds: asyncio drivers that turn what engines say of themselves into domain events."""
