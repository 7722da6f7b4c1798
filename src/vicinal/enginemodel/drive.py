"""An engine fed with arrivals and nothing else: what a measurement of one server is compared with."""

from collections.abc import Iterable
from math import inf

from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.work import Finished, Work


def serve(engine: Engine, arrivals: Iterable[tuple[float, Work]]) -> dict[str, Finished]:
    """Serve all arrivals, which come in order of their seconds, to the end; what finished, by id."""
    finished: dict[str, Finished] = {}
    for at_s, work in arrivals:
        finished.update((o.id, o) for o in engine.advance(at_s) if isinstance(o, Finished))
        engine.submit(work, at_s)
    finished.update((o.id, o) for o in engine.advance(inf) if isinstance(o, Finished))
    return finished
