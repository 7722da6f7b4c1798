"""Tenants that cannot be: said twice, known to nobody, or with more reserved than there is."""

from collections.abc import Iterator

from vicinal.config.fleet import Config
from vicinal.config.problems import Key, nearest
from vicinal.config.trust import UNNAMED

EVERYBODY = "*"


def tenant_findings(config: Config) -> Iterator[tuple[Key, str]]:
    """What is impossible about the tenants of `config`, and its cure."""
    yield from _said_once(config)
    yield from _known(config)
    yield from _reserves(config)


def _said_once(config: Config) -> Iterator[tuple[Key, str]]:
    said: dict[tuple[str, str | None], int] = {}
    models = dict.fromkeys([config.model.name, *(entry.model for entry in config.endpoint if entry.model)])
    for at, tenant in enumerate(config.tenant):
        if (first := said.setdefault((tenant.name, tenant.model), at)) != at:
            about = "" if tenant.model is None else f' for model "{tenant.model}"'
            yield ("tenant", at, "name"), f'"{tenant.name}" is tenant[{first}] already{about}; join the two'
        if tenant.model is not None and tenant.model not in models:
            yield ("tenant", at, "model"), f'no endpoint serves "{tenant.model}"{nearest(tenant.model, models)}'


def _known(config: Config) -> Iterator[tuple[Key, str]]:
    """Without keys and without a trusted header all requests are of one tenant, which a section may name."""
    if config.access.keys_file or config.server.trust_tenant_header:
        return
    for at, tenant in enumerate(config.tenant):
        if tenant.name not in (EVERYBODY, UNNAMED):
            yield (
                ("tenant", at, "name"),
                f"nobody's tenant is known, so no request is \"{tenant.name}\"'s; give access.keys_file, or set "
                f"server.trust_tenant_header behind a proxy that sets the header",
            )


def _reserves(config: Config) -> Iterator[tuple[Key, str]]:
    ids = [entry.id for entry in config.endpoint]
    for at, tenant in enumerate(config.tenant):
        for name in ("reserved_endpoints", "reserved_share"):
            if tenant.name == EVERYBODY and getattr(tenant, name):
                yield ("tenant", at, name), "what is reserved for everybody is reserved for nobody; name a tenant"
        if not config.kubernetes.selector:
            for endpoint in tenant.reserved_endpoints:
                if endpoint not in ids:
                    yield ("tenant", at, "reserved_endpoints"), f'no endpoint is "{endpoint}"{nearest(endpoint, ids)}'
    for model in dict.fromkeys(tenant.model for tenant in config.tenant):
        shares = [(at, tenant) for at, tenant in enumerate(config.tenant) if tenant.model in (None, model)]
        total = sum(tenant.reserved_share for _, tenant in shares)
        if total > 1:
            last = max(at for at, tenant in shares if tenant.reserved_share)
            yield (
                ("tenant", last, "reserved_share"),
                f"the shares come to {total:.3g} of each endpoint; leave them at 1 together, or below",
            )
            return
