"""Who keeps which blocks, against a dictionary of all blocks that is looked through after each step."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import request
from vicinal.domain.ids import RequestId, TenantId
from vicinal.domain.request import HASH_BYTES, Request
from vicinal.domain.tier import Tier
from vicinal.flow.quotas.kept import Kept
from vicinal.flow.quotas.rules import Quota, Rules
from vicinal.flow.tenants import EVERYBODY, Tenant, Tenants
from vicinal.kvindex.engine_blocks import EngineBlocks
from vicinal.kvindex.hashing import ROOT, chain, unpack
from vicinal.kvindex.index import BlockIndex
from vicinal.kvindex.inferred import InferredBlocks
from vicinal.kvindex.limit import Limit

A, B, FREE = TenantId("a"), TenantId("b"), TenantId("free")
TENANTS = Tenants(
    [
        Tenant(A, rules=Rules(kept_blocks_max=10)),
        Tenant(B, rules=Rules(kept_blocks_max=100, kept_block_groups_max=2)),
        Tenant(FREE, rules=Rules(requests_per_s=1.0)),
    ]
)


def prompt(choice: int) -> bytes:
    """One of many chains that share beginnings: the first of three beginnings, then the first of three ends."""
    begin, middle, end, blocks = choice % 3, choice // 3 % 3, choice // 9 % 3, choice // 27 % 9 + 1
    ids = np.repeat([begin + 1, 10 * middle + begin + 7, 100 * end + 50], 3 * 16).astype(np.uint32)
    return chain(ids.tobytes(), 16)[: blocks * HASH_BYTES]


def of(tenant: TenantId, hashes: bytes, name: str = "q") -> Request:
    return request(name, 16, tenant=tenant, block_hashes=hashes)


def bring(kept: Kept, index: BlockIndex, asked: Request, slot: int = 0, now: float = 0.0) -> None:
    """As a plan does."""
    known = kept.known(asked)
    covered = index.expect(slot, asked.block_hashes, now)
    if known is not None:
        kept.brought(asked, known, covered)


STEP = st.tuples(
    st.sampled_from(["bring", "bring", "end", "store", "remove", "clear", "drop"]), st.integers(0, 2**31 - 1)
)


@pytest.mark.mission("B6")
@settings(max_examples=300, deadline=None)
@given(st.lists(STEP, max_size=40))
def test_a_block_is_whose_request_brought_it_first_while_it_is_known(steps: list[tuple[str, int]]) -> None:
    index = BlockIndex(16, run_blocks_max=4)
    kept = Kept(TENANTS, index)
    owner: dict[int, TenantId] = {}
    live: list[tuple[int, bytes]] = []
    for what, choice in steps:
        slot, hashes = choice % 2, prompt(choice // 8)
        if what == "bring":
            tenant = (A, B, FREE, TenantId("nobody"))[choice // 2 % 4]
            for block in unpack(hashes):
                if not index.group(block) and tenant in (A, B):
                    owner[block] = tenant
            bring(kept, index, of(tenant, hashes), slot)
            live.append((slot, hashes))
        elif what == "end" and live:
            index.unexpect(*live.pop(choice % len(live)))
        elif what == "store":
            index.store(slot, ROOT, hashes, (Tier.HBM, Tier.HOST)[choice // 2 % 2])
        elif what == "remove":
            index.remove(slot, unpack(hashes)[choice % 3 :])
        elif what == "clear":
            index.clear(slot)
        elif what == "drop":
            index.drop_coldest(choice // 8 % 5)
        owner = {block: tenant for block, tenant in owner.items() if index.group(block)}
        for tenant in (A, B, FREE):
            blocks = sum(whose == tenant for whose in owner.values())
            keeper = kept.keeper(of(tenant, b""))
            assert (keeper.blocks if keeper else 0) == blocks
            assert (keeper is None) == (not blocks)
        a, b = kept.exceeded(of(A, b"")), kept.exceeded(of(B, b""))
        assert (a is not None) == (sum(whose == A for whose in owner.values()) > 10)
        assert a is None or (a.quota, a.limit, a.retry_s) == (Quota.KEPT_BLOCKS, 10, None)
        assert b is None or (b.quota, b.limit) == (Quota.KEPT_GROUPS, 2)
    for slot, hashes in live:
        index.unexpect(slot, hashes)
    index.clear(0)
    index.clear(1)
    assert len(index) == 0
    assert kept.keeper(of(A, b"")) is kept.keeper(of(B, b"")) is None


def ids(seed: int, blocks: int) -> bytes:
    return chain(np.random.default_rng(seed).integers(0, 9999, blocks * 16, dtype=np.uint32).tobytes(), 16)


@pytest.mark.mission("B6")
def test_whoever_keeps_too_much_loses_its_oldest_first() -> None:
    """All are equally often asked for and the tenant's came last, so without its quota they would stay longest."""
    index = BlockIndex(16)
    engines = EngineBlocks(index)
    limit = Limit(engines, InferredBlocks(index), blocks_max=100)
    kept = Kept(Tenants([Tenant(A, rules=Rules(kept_blocks_max=40))]), index)
    limit.before = kept.cool
    chains = [(B, ids(n, 10)) for n in range(5)] + [(A, ids(10 + n, 10)) for n in range(6)]
    for number, (tenant, hashes) in enumerate(chains):
        bring(kept, index, of(tenant, hashes), now=float(number))
        index.store(0, ROOT, hashes)
        index.unexpect(0, hashes)
    keeper = kept.keeper(of(A, b""))
    assert keeper is not None
    assert keeper.blocks == 60
    assert limit.keep() == 20
    assert [index.known(hashes) for _, hashes in chains] == [10] * 5 + [0, 0, 10, 10, 10, 10]
    assert keeper.blocks == 40


def test_nothing_is_counted_where_nobody_is_limited() -> None:
    index = BlockIndex(16)
    kept = Kept(Tenants([Tenant(EVERYBODY, rules=Rules(requests_per_s=1.0))]), index)
    assert kept.known(of(A, ids(1, 5))) is None
    assert kept.exceeded(of(A, ids(1, 5))) is None


def test_an_answer_says_what_is_kept_and_no_time() -> None:
    index = BlockIndex(16)
    kept = Kept(Tenants([Tenant(EVERYBODY, rules=Rules(kept_blocks_max=3))]), index)
    bring(kept, index, of(A, ids(1, 5)))
    bring(kept, index, of(B, ids(1, 5), RequestId("r")))
    exceeded = kept.exceeded(of(A, b""))
    assert exceeded is not None
    assert exceeded.words == "quota kept_blocks_max of tenant a is used up: 5 of 3"
    assert kept.exceeded(of(B, b"")) is None
