"""KV that tenants make engines keep: whose request brought which blocks of the index, and who has brought too many.

A block is the tenant's whose request was the first to bring it, for as long as the index knows it, in whatever tier and
on however many endpoints. Whoever comes later finds it there and pays nothing. A tenant over its quota is not refused:
what it brought goes first when the index is full, and its copies are refused. Stock engines evict by themselves, and
nobody can tell them whose blocks to keep (docs/tenants.md).
"""

from collections.abc import Sequence

from vicinal.domain.ids import ModelId, TenantId
from vicinal.domain.request import HASH_BYTES, Request
from vicinal.flow.quotas.exceeded import Exceeded
from vicinal.flow.quotas.rules import Quota, Rules
from vicinal.flow.tenants import Tenants
from vicinal.kvindex.hashing import unpack
from vicinal.kvindex.index import BlockIndex

Key = tuple[TenantId, ModelId | None]


class Group:
    """What one request brought, in one piece: `blocks` of it are still known, the `hashes` are of all, packed."""

    __slots__ = ("blocks", "hashes", "of")

    def __init__(self, of: "Keeper", hashes: bytes) -> None:
        self.of = of
        self.hashes = hashes
        self.blocks = len(hashes) // HASH_BYTES


class Keeper:
    """A tenant with a quota of what it keeps: its groups, oldest first, and their blocks that are known."""

    __slots__ = ("blocks", "groups", "key", "rules")

    def __init__(self, key: Key, rules: Rules) -> None:
        self.key = key
        self.rules = rules
        self.groups: dict[Group, None] = {}
        self.blocks = 0

    def exceeded(self) -> Exceeded | None:
        most_blocks, most_groups = self.rules.kept_blocks_max, self.rules.kept_block_groups_max
        if most_blocks is not None and self.blocks > most_blocks:
            return Exceeded(self.key[0], Quota.KEPT_BLOCKS, self.blocks, most_blocks)
        if most_groups is not None and len(self.groups) > most_groups:
            return Exceeded(self.key[0], Quota.KEPT_GROUPS, len(self.groups), most_groups)
        return None


class Kept:
    """Looks at the prompts of tenants with such a quota, and costs others nothing. For each block that they keep it has
    an entry of a dict; a tenant that keeps nothing is forgotten."""

    def __init__(self, tenants: Tenants, index: BlockIndex) -> None:
        self._tenants = tenants
        self._index = index
        self._keepers: dict[Key, Keeper] = {}
        self._group_of: dict[int, Group] = {}
        self._limited = any(tenant.rules is not None and tenant.rules.keeps_limited for tenant in tenants.all)
        if self._limited:
            index.tell_gone(self._gone)

    def known(self, request: Request) -> int | None:
        """How many blocks of the prompt are there before the request brings the rest; None when nobody counts them."""
        counts = self._limited and self._found(request) is not None
        return self._index.known(request.block_hashes) if counts else None

    def brought(self, request: Request, known: int, covered: int) -> None:
        """The index has taken in the first `covered` blocks of the prompt, of which it knew the first `known`."""
        found = self._found(request)
        if found is None or covered <= known:
            return
        key, rules = found
        keeper = self._keepers.get(key)
        if keeper is None:
            keeper = self._keepers[key] = Keeper(key, rules)
        group = Group(keeper, request.block_hashes[known * HASH_BYTES : covered * HASH_BYTES])
        keeper.groups[group] = None
        keeper.blocks += group.blocks
        self._group_of.update(dict.fromkeys(unpack(group.hashes), group))

    def exceeded(self, request: Request) -> Exceeded | None:
        """Whether the request's tenant keeps more than it may."""
        keeper = self.keeper(request) if self._limited else None
        return None if keeper is None else keeper.exceeded()

    def keeper(self, request: Request) -> Keeper | None:
        """None for a tenant without such a quota, and for one that keeps nothing."""
        found = self._found(request)
        return None if found is None else self._keepers.get(found[0])

    def keeper_of(self, key: Key) -> Keeper | None:
        """The same by tenant, and model if the quota is about one."""
        return self._keepers.get(key)

    def cool(self) -> None:
        """Make what tenants brought beyond their quotas the first to be given up, of each its oldest."""
        for keeper in self._keepers.values():
            most_blocks, most_groups = keeper.rules.kept_blocks_max, keeper.rules.kept_block_groups_max
            blocks = 0 if most_blocks is None else keeper.blocks - most_blocks
            groups = 0 if most_groups is None else len(keeper.groups) - most_groups
            for group in keeper.groups:
                if blocks <= 0 and groups <= 0:
                    break
                for block in unpack(group.hashes):
                    self._index.cool(block)
                blocks -= group.blocks
                groups -= 1

    def sound(self) -> bool:
        """Each block that is counted is known, and all counts agree. For checks: it looks at everything."""
        known = all(self._index.group(block) is not None for block in self._group_of)
        groups = [group for keeper in self._keepers.values() for group in keeper.groups]
        blocks = sum(keeper.blocks for keeper in self._keepers.values())
        return known and blocks == sum(group.blocks for group in groups) == len(self._group_of)

    def _found(self, request: Request) -> tuple[Key, Rules] | None:
        tenant = self._tenants.of(request.tenant, request.model)
        if tenant is None or tenant.rules is None or not tenant.rules.keeps_limited:
            return None
        return (request.tenant, tenant.model), tenant.rules

    def _gone(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            group = self._group_of.pop(block, None)
            if group is None:
                continue
            keeper = group.of
            group.blocks -= 1
            keeper.blocks -= 1
            if not group.blocks:
                del keeper.groups[group]
                if not keeper.groups:
                    del self._keepers[keeper.key]
