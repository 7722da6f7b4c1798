"""LRU caches: Che's approximation under independent requests, and the hit ratios of real traces.

Che: with characteristic time t, item i is found with probability 1 - exp(-p_i t), and the cache holds C items, which
gives t (Che, Tung & Wang, IEEE JSAC 20(7), 2002). It is an approximation, but at these sizes within a tenth of a
percent of LRU (Fricker, Robert & Roberts, ITC 2012).
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np

from tests.theory.estimate import estimate
from tests.theory.queues import FIT, VOCABULARY, Floats, System, build, fleet
from tests.theory.rows import Case, Row, row
from vicinal.enginemodel.blocks import BlockPool
from vicinal.policies.registry import policy
from vicinal.workload.arrival import Arrival
from vicinal.workload.prompt import Piece, Prompt

ITEMS = 10_000
BLOCK_TOKENS = 64
IN_ENGINE, IN_POOL, IN_ORACLE = 4_000, 50_000, 400_000


def popularity(alpha: float) -> Floats:
    weights = np.arange(1, ITEMS + 1, dtype=np.float64) ** -alpha
    return np.asarray(weights / weights.sum())


def che(alpha: float, size: int) -> float:
    """The share of requests that find their item in a cache of `size` items."""
    p = popularity(alpha)
    low, high = 0.0, 1e9
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if (1 - np.exp(-p * middle)).sum() > size else (middle, high)
    return float(p @ (1 - np.exp(-p * low)))


def requests(alpha: float, count: int, seed: int) -> list[int]:
    return np.random.default_rng(seed).choice(ITEMS, size=count, p=popularity(alpha)).tolist()


def least_recently_used(items: Iterable[int], size: int) -> Floats:
    """Who finds its item, by definition."""
    cache: OrderedDict[int, None] = OrderedDict()
    found = []
    for item in items:
        found.append(item in cache)
        cache[item] = None
        cache.move_to_end(item)
        if len(cache) > size:
            cache.popitem(last=False)
    return np.array(found, dtype=np.float64)


def in_pool(chains: Iterable[Sequence[int]], blocks: int) -> Iterator[tuple[int, int]]:
    """Prompts, one after the other, as chains of keys through one pool: (blocks found, blocks) of each."""
    pool = BlockPool(blocks)
    for keys in chains:
        found = pool.match(keys)
        taken = pool.take(keys[:found], len(keys) - found)
        assert taken is not None
        pool.seal(taken.blocks, keys, found, len(keys))
        pool.release(taken.blocks)
        yield found, len(keys)


def in_engine(items: list[int], size: int) -> Floats:
    """Who finds its item in the prefix cache of a simulated endpoint, as seen from how long its prefill takes.

    An item is a block, followed by a token of the request's own, which needs a block while it is computed. Requests
    come so far apart that nobody waits.
    """
    system = System(told_sequences=1)
    endpoint, *_ = fleet(system, BLOCK_TOKENS, size + 1)

    def arrivals() -> Iterator[Arrival]:
        for number, item in enumerate(items):
            yield Arrival(float(number), Prompt((Piece(item, BLOCK_TOKENS), Piece(ITEMS + number, 1)), VOCABULARY), 1)

    simulation = build([endpoint], arrivals(), policy("cost"), system)
    simulation.run(lambda _arrived, _now: None)
    prefill_s = np.array(simulation.measures.ttft_s)
    found = np.isclose(prefill_s, FIT.prefill_s(1.0, 0.0), rtol=1e-3)
    missed = np.isclose(prefill_s, FIT.prefill_s(BLOCK_TOKENS + 1.0, 0.0), rtol=1e-3)
    assert np.all(found ^ missed)
    return found.astype(np.float64)


def zipf(alpha: float, size: int, *, whole: bool) -> Row:
    """Hit ratio of a pool, or of a whole simulated endpoint; the same requests through an LRU are the control."""
    items, longer = requests(alpha, IN_ENGINE if whole else IN_POOL, 1), requests(alpha, IN_ORACLE, 2)
    found = in_engine(items, size) if whole else np.array([f for f, _ in in_pool([(i,) for i in items], size)], float)
    control = least_recently_used(items, size)
    return row(che(alpha, size), found, control, estimate(least_recently_used(longer, size), warm_up=0.25))


CASES = [
    Case(
        f"LRU of {size} of {ITEMS} items, Zipf {alpha}, {'an endpoint' if whole else 'the block pool'}: hit ratio",
        0.05 if alpha < 0.7 else 0.02,
        partial(zipf, alpha, size, whole=whole),
    )
    for whole, alphas in ((False, (0.6, 0.8, 1.0, 1.2)), (True, (1.0,)))
    for alpha in alphas
    for size in ((100, 3000) if whole else (100, 1000, 3000))
]
