"""Trust groups that cannot be: tenants that nobody can know, in two groups at once, or on engines without salts."""

from collections.abc import Iterator

from vicinal.config.fleet import Config
from vicinal.config.problems import Key
from vicinal.domain.capabilities import CAPABILITIES

UNNAMED = "default"
"""The tenant of requests that name none."""


def trust_findings(config: Config) -> Iterator[tuple[Key, str]]:
    """What is impossible about the trust groups of `config`, and its cure."""
    names: dict[str, int] = {}
    group_of: dict[str, str] = {}
    for at, group in enumerate(config.trust_group):
        if (first := names.setdefault(group.name, at)) != at:
            yield ("trust_group", at, "name"), f'"{group.name}" is trust_group[{first}] already'
        if not group.tenants:
            yield ("trust_group", at, "tenants"), "a group without tenants; name at least one"
        for tenant in group.tenants:
            if tenant == UNNAMED:
                yield (
                    ("trust_group", at, "tenants"),
                    f'"{UNNAMED}" is the tenant of requests that name none; they are in the default group',
                )
            elif (other := group_of.setdefault(tenant, group.name)) != group.name:
                yield ("trust_group", at, "tenants"), f'"{tenant}" is in group "{other}" already'
    if not config.trust_group and not config.server.isolate_tenants:
        return
    if not config.server.trust_tenant_header and not config.access.keys_file:
        yield (
            ("server", "trust_tenant_header"),
            "trust groups part tenants, and nobody's tenant is known; give access.keys_file, or set this to true "
            "behind a proxy that sets the header, or leave the groups out",
        )
    for at, entry in enumerate(config.endpoint):
        can = CAPABILITIES.get(entry.dialect)
        if can is not None and not can.cache_salt:
            yield (
                ("endpoint", at, "dialect"),
                f'"{entry.id}" speaks {entry.dialect}, which has no cache salt: it would share prefixes between trust '
                "groups; leave it, or the groups, out",
            )
