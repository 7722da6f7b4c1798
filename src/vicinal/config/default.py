"""The embedded cluster of `vicinal up`: two racks, each with two prefill and two decode endpoints, on a fabric where
distance matters (leaf uplinks oversubscribed 8:1).

An endpoint is Llama-3.1-70B on 8 H100 with tensor parallelism: 80 layers × 8 KV heads × 128 × 2 (K and V) × 2 bytes =
327,680 bytes of KV per token; 640 GB of HBM less 141 GB of weights and working space leave about 1.2 M tokens. Its
host's memory keeps 4 M more (1.3 TB), which eight GPUs together read at 128 GB/s (what Mooncake reckons with).
"""

from vicinal.config.fleet import Config, Endpoint, Network
from vicinal.config.schema import Emulator, Model, Record, Scheduler, Server
from vicinal.domain.endpoint import Role

RACKS = ("r1", "r2")
MEMBERS = (("p1", Role.PREFILL), ("p2", Role.PREFILL), ("d1", Role.DECODE), ("d2", Role.DECODE))
ENGINES_FROM = 10
PORTS_PER_ENGINE = 3
EMIT_INTERVAL_MS = 20.0
"""Coarser than a token at speed 1, so that engines, gateway and client of a busy run fit on two cores."""


def default_cluster(
    base_port: int = 8000,
    host: str = "127.0.0.1",
    policy: str = "cost",
    seed: int = 0,
    speed: float = 1.0,
    record_directory: str = "vicinal-data",
) -> Config:
    """The default cluster. The API is at `base_port`, admin one above, engines from ten above.

    An engine has three ports in a row: HTTP, KV events, replay of events. So ports to `base_port` + 33 are used.
    """
    endpoints: list[Endpoint] = []
    for rack in RACKS:
        for member, role in MEMBERS:
            port = base_port + ENGINES_FROM + PORTS_PER_ENGINE * len(endpoints)
            endpoints.append(
                Endpoint(
                    id=f"{rack}-{member}",
                    url=f"http://{host}:{port}",
                    role=role,
                    host=f"{rack}-{member}-host",
                    leaf=rack,
                    pod="pod1",
                    site="site1",
                    kv_tokens=1_200_000,
                    host_tokens=4_000_000,
                    host_gbytes_per_s=128.0,
                    events_url=f"tcp://{host}:{port + 1}",
                    replay_url=f"tcp://{host}:{port + 2}",
                )
            )
    return Config(
        server=Server(host=host, port=base_port, admin_host=host, admin_port=base_port + 1),
        model=Model(
            name="llama-3.1-70b",
            tokenizer="tiny",
            block_tokens=16,
            tokens_max=131_072,
            kv_bytes_per_token=327_680,
            profile="llama-3.1-70b-h100-tp8-vllm",
        ),
        scheduler=Scheduler(policy=policy, seed=seed),
        network=Network(
            host_latency_us=5.0,
            leaf_latency_us=10.0,
            spine_latency_us=20.0,
            nic_gbytes_per_s=25.0,
            leaf_oversubscription=8.0,
        ),
        record=Record(directory=record_directory),
        emulator=Emulator(speed=speed, emit_interval_ms=EMIT_INTERVAL_MS),
        endpoint=tuple(endpoints),
    )
