"""Random fleets on small trees, with every way to leave a placement Unknown."""

from hypothesis import strategies as st

from tests.builders import endpoint
from vicinal.domain.endpoint import Endpoint, Placement, Role

_LEAVES = {"r1": "podA", "r2": "podA", "r3": "podB", "r4": ""}
"""Each leaf is in one pod, as the configuration demands; r4's is Unknown."""


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    leaf = draw(st.sampled_from(["", *_LEAVES]))
    host = draw(st.sampled_from(["", "h1", "h2"]))
    return Placement(
        host=f"{host}.{leaf}" if host and leaf else host, leaf=leaf, pod=_LEAVES.get(leaf, ""), site="site"
    )


@st.composite
def fleets(draw: st.DrawFn, size_max: int = 7) -> list[Endpoint]:
    places = draw(st.lists(placements(), min_size=1, max_size=size_max))
    return [
        endpoint(
            f"e{n}",
            draw(st.sampled_from(list(Role))),
            placement=place,
            nic_bytes_per_s=draw(st.sampled_from([1e9, 25e9, 50e9])),
        )
        for n, place in enumerate(places)
    ]
