"""The block pool against a twin that only counts who uses what."""

from hypothesis import given, settings
from hypothesis import strategies as st

from vicinal.enginemodel.blocks import BlockPool
from vicinal.enginemodel.chain import extend_chain

BLOCKS = 6


class NaiveTwin:
    """Sets and counts, no order: what is held, and by how many."""

    def __init__(self) -> None:
        self.users: dict[int, int] = {}
        self.content: dict[int, int] = {}

    def take(self, blocks: list[int]) -> None:
        for block in blocks:
            self.users[block] = self.users.get(block, 0) + 1

    def release(self, blocks: list[int]) -> None:
        for block in blocks:
            self.users[block] -= 1
            if not self.users[block]:
                del self.users[block]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_pool_conserves_blocks_and_never_evicts_one_in_use(data: st.DataObject) -> None:
    pool, twin = BlockPool(BLOCKS), NaiveTwin()
    live: list[tuple[list[int], list[int]]] = []
    held: dict[int, int] = {}
    for _ in range(data.draw(st.integers(1, 25))):
        if live and data.draw(st.booleans()):
            blocks, _ = live.pop(data.draw(st.integers(0, len(live) - 1)))
            pool.release(blocks)
            twin.release(blocks)
        else:
            # Chains over a tiny alphabet share prefixes often.
            keys = list(data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=4)))
            chain = [hash(tuple(keys[: i + 1])) for i in range(len(keys))]
            hit = pool.match(chain)
            assert hit == next((i for i, key in enumerate(chain) if key not in held), len(chain))
            taken = pool.take(chain[:hit], len(chain) - hit)
            shared = {held[key] for key in chain[:hit]}
            fits = len(chain) - hit <= BLOCKS - len(twin.users) - len(shared - twin.users.keys())
            assert (taken is not None) == fits
            if taken is not None:
                for key in taken.evicted:
                    assert held.pop(key) not in twin.users
                assert not set(taken.blocks[hit:]) & twin.users.keys()
                assert not set(taken.blocks[hit:]) & set(held.values())
                assert taken.blocks[:hit] == [held[key] for key in chain[:hit]]
                twin.take(taken.blocks)
                for first, last in pool.seal(taken.blocks, chain, hit, len(chain)):
                    for position in range(first, last):
                        assert chain[position] not in held
                        held[chain[position]] = taken.blocks[position]
                live.append((taken.blocks, chain))
        assert pool.used == len(twin.users)
        assert pool.free + pool.used == BLOCKS
        assert pool.cached == len(held) <= BLOCKS
    for blocks, _ in live:
        pool.release(blocks)
    assert pool.used == 0
    assert pool.clear()
    assert (pool.cached, pool.free) == (0, BLOCKS)


def test_the_tail_of_a_chain_goes_first_and_the_oldest_chain_before_the_newer() -> None:
    pool = BlockPool(4)
    for keys in ([11, 12], [21, 22]):
        taken = pool.take((), 2)
        assert taken is not None
        assert pool.seal(taken.blocks, keys, 0, 2) == [(0, 2)]
        pool.release(taken.blocks)
    taken = pool.take((), 3)
    assert taken is not None
    assert taken.evicted == [12, 11, 22]


def test_using_a_chain_makes_it_young_again() -> None:
    pool = BlockPool(2)
    for key in (1, 2):
        taken = pool.take((), 1)
        assert taken is not None
        pool.seal(taken.blocks, [key], 0, 1)
        pool.release(taken.blocks)
    again = pool.take([1], 0)
    assert again is not None
    pool.release(again.blocks)
    taken = pool.take((), 1)
    assert taken is not None
    assert taken.evicted == [2]


def test_content_that_is_held_already_is_not_stored_twice() -> None:
    pool = BlockPool(4)
    first, second = pool.take((), 2), pool.take((), 2)
    assert first is not None
    assert second is not None
    assert pool.seal(first.blocks, [1, 2], 0, 1) == [(0, 1)]
    assert pool.seal(second.blocks, [1, 3], 0, 2) == [(1, 2)]
    assert not pool.clear()
    pool.release(second.blocks)
    assert pool.cached == 2


def test_chain_keys_depend_on_everything_before_and_on_the_salt() -> None:
    def chain(tokens: bytes, salt: bytes = b"") -> list[int]:
        keys: list[int] = []
        extend_chain(keys, tokens, len(tokens) // 8, 2, salt)
        return keys

    a = chain(b"AAAABBBBCCCCDDDD")
    assert len(a) == 2
    assert chain(b"AAAABBBBCCCCDDDDEEEEFFFF")[:2] == a
    assert chain(b"AAAAXXXXCCCCDDDD")[1] != a[1]
    assert not set(chain(b"AAAABBBBCCCCDDDD", b"tenant")) & set(a)
    resumed = a[:1]
    extend_chain(resumed, b"AAAABBBBCCCCDDDD", 2, 2, b"")
    assert resumed == a
