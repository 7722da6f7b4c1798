"""A configuration as what the gateway is made of: models, whom it trusts, and its bounds."""

from vicinal.config.cluster import group_of_tenant, services, tokenizer_folder
from vicinal.config.fleet import Config
from vicinal.config.problems import ConfigError, Problem
from vicinal.domain.capabilities import CAPABILITIES
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import ModelId
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.app import Served
from vicinal.gateway.caller import DEFAULT_TENANT
from vicinal.gateway.limits import Limits
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.trust import TrustGroups
from vicinal.tokenizer.tokenizer import Tokenizer
from vicinal.wiring.access import client_ring, forwarding
from vicinal.wiring.tls import engine_tls, server_tls


def check_models(config: Config) -> None:
    """Raise ConfigError for an endpoint of another model: a gateway serves one."""
    for at, entry in enumerate(config.endpoint):
        if entry.model not in (None, config.model.name):
            words = f'"{entry.id}" serves {entry.model}: a gateway serves one model, {config.model.name}'
            raise ConfigError([Problem("configuration", f"endpoint[{at}].model", words)])


def served(config: Config, fleet: tuple[Endpoint, ...]) -> Served:
    """Raises ConfigError like `check_models` and for files of keys and certificates, and what the tokenizer raises."""
    check_models(config)
    folder = tokenizer_folder(config)
    model = ServedModel(
        id=ModelId(config.model.name),
        block_tokens=config.model.block_tokens,
        model_tokens_max=config.model.tokens_max,
        tokenizer=None if folder is None else Tokenizer.load(folder),
        tokenizer_folder=None if folder is None else str(folder),
    )
    trusted = TrustedHeaders(
        tenant=config.server.tenant_header.lower(),
        service_class=config.server.class_header.lower(),
        classes=services(config),
        peers=config.access.trusted_peers if config.server.trust_tenant_header else (),
    )
    trust = TrustGroups(group_of_tenant(config), config.server.isolate_tenants, DEFAULT_TENANT)
    return Served(
        (model,),
        fleet,
        trusted,
        trust,
        client_ring(config),
        forwarding(config),
        server_tls(config),
        engine_tls(config),
    )


def check_salts(config: Config, fleet: tuple[Endpoint, ...]) -> None:
    """Raise ValueError for an endpoint that would share prefixes between trust groups, however it was found."""
    if not config.trust_group and not config.server.isolate_tenants:
        return
    for endpoint in fleet:
        if not CAPABILITIES[endpoint.dialect].cache_salt:
            raise ValueError(f'"{endpoint.id}" speaks {endpoint.dialect}, which has no cache salt for trust groups')


def limits(config: Config) -> Limits:
    server = config.server
    return Limits(
        connections=server.connections_max,
        address_connections=server.connections_per_address_max,
        body_bytes=server.body_bytes_max,
        long_body_bytes=server.long_body_bytes,
        long_bodies_bytes=server.long_bodies_bytes_max,
        reading_s=server.body_read_timeout_s,
        head_bytes=server.header_bytes_max,
        head_fields=server.header_fields_max,
        head_s=server.header_timeout_s,
        body_s=server.body_timeout_s,
        idle_s=server.idle_timeout_s,
        connect_s=server.connect_timeout_s,
        engine_silence_s=server.engine_silence_s,
    )
