"""How many requests a tenant has at a time."""


class Concurrency:
    """Counts requests from their arrival to their end, waiting ones included. No limit when `most` is None."""

    __slots__ = ("count", "most")

    def __init__(self, most: int | None) -> None:
        self.most = most
        self.count = 0

    @property
    def reached(self) -> bool:
        """One more would be too many."""
        return self.most is not None and self.count >= self.most

    def enter(self) -> None:
        self.count += 1

    def leave(self) -> None:
        self.count -= 1
