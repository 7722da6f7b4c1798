"""Which words a label takes: tenants come from clients' keys, so their number is not for them to say."""

OTHER = "other"


class BoundedNames:
    """The first `most` words have their own names, all others share `OTHER`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()

    def of(self, word: str) -> str:
        if word in self._names:
            return word
        if len(self._names) >= self._most:
            return OTHER
        self._names.add(word)
        return word
