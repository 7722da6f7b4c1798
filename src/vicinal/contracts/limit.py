"""A limit says how many predicted seconds of prefill may wait in each engine's own queue before work is held here.

In an engine's queue the order cannot be changed any more, and nothing that waits there can go elsewhere; here it can.
So an engine should have enough to do, and no more. How much is enough is a rule of one of several kinds, which learns
from how the predictions came out.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Limit(Protocol):
    """`limit_s` is per slot, in predicted seconds, above zero. It is another array after `resize`, so nobody keeps it.

    A limit raises nothing and changes only itself. Whatever it is told, its seconds stay within bounds of its own.
    """

    @property
    def name(self) -> str: ...

    @property
    def limit_s(self) -> NDArray[np.float64]: ...

    def resize(self, slots: int) -> None:
        """The fleet has so many slots now; it never has fewer than before."""

    def forget(self, slot: int) -> None:
        """Another engine has the slot: what was learned there is void."""

    def observe(self, slot: int, wait_s: float, predicted_s: float, seen_s: float, now: float) -> None:
        """A prefill leg answered at `now`, `seen_s` after it was sent. Then `wait_s` of predicted work was ahead of it,
        and its answer was predicted after `predicted_s`, that wait included."""

    def failed(self, slot: int, seen_s: float, now: float) -> None:
        """A prefill leg failed at `now`, `seen_s` after it was sent, and the engine is to blame."""
