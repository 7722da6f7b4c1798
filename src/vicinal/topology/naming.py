"""Links by name: what a fault or a load on a link is said of."""

from collections.abc import Sequence
from difflib import get_close_matches

from vicinal.topology.graph import Link


class UnknownLinkError(ValueError):
    """No link has this name. `nearest` are the known names that it resembles most."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        self.name = name
        self._known = tuple(known)
        self.nearest = tuple(get_close_matches(name, known, n=3, cutoff=0.5))
        hint = (
            f"did you mean {' or '.join(self.nearest)}?"
            if self.nearest
            else f"one of them is {known[0]}"
            if known
            else ""
        )
        super().__init__(f'no link is called "{name}"{f"; {hint}" if hint else ""}')

    def __reduce__(self) -> tuple[type["UnknownLinkError"], tuple[str, tuple[str, ...]]]:
        """What a run in another process raises is sent here as what it was made of."""
        return UnknownLinkError, (self.name, self._known)


def links_named(links: Sequence[Link], name: str) -> tuple[int, ...]:
    """Positions of the links that `name` means: the link itself, or all below it.

    `leaf/r1/up` is one link of a tree and one per rail and spine of a fabric; `leaf/r1` is both directions of all of
    them. Raises UnknownLinkError.
    """
    found = tuple(at for at, link in enumerate(links) if link.id == name or link.id.startswith(f"{name}/"))
    if not found:
        raise UnknownLinkError(name, [str(link.id) for link in links])
    return found
