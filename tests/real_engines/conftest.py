"""Two real engines, started once for all tests here. Without their environment every test is skipped, and says so."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.ports import free_row
from tests.real_engines.engine import PORTS, RealEngine, installed, make_model, packaged_model
from vicinal.domain.endpoint import Role

PREFILL_BLOCKS, DECODE_BLOCKS = 192, 512
"""Of 32 tokens: what the tests keep alive does not fit the first, and fits the second."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A prefill and a decode engine, both of which can hand off and take."""

    prefill: RealEngine
    decode: RealEngine

    @property
    def both(self) -> list[RealEngine]:
        return [self.prefill, self.decode]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    environment = installed()
    if environment is None:
        pytest.skip("no real vLLM: `make test-engines` installs one outside the checkout (4 GB) and runs these tests")
    folder = tmp_path_factory.mktemp("engines")
    model = folder / "model"
    make_model(environment, packaged_model(), model)
    port = free_row(2 * PORTS)
    made = Pair(
        RealEngine("p0", Role.PREFILL, environment, model, folder, port, PREFILL_BLOCKS),
        RealEngine("d0", Role.DECODE, environment, model, folder, port + PORTS, DECODE_BLOCKS),
    )
    try:
        for engine in made.both:
            engine.start()
        for engine in made.both:
            engine.wait()
        yield made
    finally:
        for engine in made.both:
            engine.kill()


@pytest.fixture
def fresh(pair: Pair) -> Pair:
    """The engines with empty prefix caches, and that published: vLLM does so with its next step."""
    for engine in pair.both:
        assert engine.reset_prefix_cache()
        engine.step()
    return pair
