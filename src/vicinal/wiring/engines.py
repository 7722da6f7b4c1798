"""The emulated engines of a configuration, in this process: what `vicinal engine` runs."""

from vicinal.config.cluster import endpoints, parallel, tokenizer_folder, tree_network
from vicinal.config.fleet import Config
from vicinal.domain.endpoint import HandOff
from vicinal.emulator.host import EmulatedFleet
from vicinal.tokenizer.tokenizer import Tokenizer
from vicinal.topology.fabric import Fabric
from vicinal.topology.tree import tree_topology
from vicinal.wiring.core import check


def make_fleet(config: Config, origin_s: float | None) -> EmulatedFleet:
    """Not started yet. `origin_s` is the monotonic instant of model second 0, shared with whoever reads the stamps.

    Raises ValueError for a model without a tokenizer (an emulated engine has to say something) and for what no emulated
    engine can be.
    """
    check(config)
    folder = tokenizer_folder(config)
    if folder is None:
        raise ValueError('an emulated engine needs a tokenizer: set model.tokenizer (for example to "tiny")')
    fleet = endpoints(config)
    for endpoint in fleet:
        if endpoint.data_parallel_rank is not None:
            raise ValueError(f"endpoint {endpoint.id} is a data-parallel rank: emulated engines have none")
        if endpoint.url.startswith("https:"):
            raise ValueError(f"endpoint {endpoint.id}: emulated engines speak http, not https")
        if endpoint.hands_off and endpoint.hand_off is HandOff.MOONCAKE:
            raise ValueError(f'endpoint {endpoint.id}: emulated vLLM engines hand off by "nixl", not by "mooncake"')
    return EmulatedFleet(
        fleet,
        Fabric(tree_topology(fleet, tree_network(config)), parallel(config)),
        config.emulator.speed,
        Tokenizer.load(folder),
        origin_s=origin_s,
        emit_interval_s=config.emulator.emit_interval_ms / 1e3,
        natural_tokens=config.emulator.default_output_tokens,
        batched_tokens_max=config.emulator.batched_tokens_max,
    )
