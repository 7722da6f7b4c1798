"""The sections that describe the fleet: its network, its endpoints and the kinds of request it serves."""

from typing import Annotated

from msgspec import Meta, Struct

from vicinal.config.access import Access
from vicinal.config.flow import Flow
from vicinal.config.kubernetes import Kubernetes
from vicinal.config.schema import Count, Emulator, Model, Name, Port, Record, Scheduler, Server
from vicinal.config.tenants import Tenant
from vicinal.config.tls import Tls
from vicinal.domain.band import Band
from vicinal.domain.endpoint import HOST_BYTES_PER_S, SSD_BYTES_PER_S, HandOff, Role
from vicinal.domain.request import INTERACTIVE
from vicinal.topology.tree import TreeNetwork

_TREE = TreeNetwork()
Latency = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0)]
Weight = Annotated[float, Meta(ge=0)]
Tokens = Annotated[int, Meta(ge=0)]


class Network(Struct, frozen=True, kw_only=True):
    """The tree of levels: host, leaf (rack), spine (pod), across. A GB is 10^9 bytes; latencies are one way.

    What lies in parallel (`rails`, `spines`) is for modelled engines; the scheduler believes in the tree (topology.md).
    """

    host_latency_us: Annotated[Latency, Meta(description="Latency between endpoints of one host.")] = round(
        _TREE.host_latency_s * 1e6, 6
    )
    leaf_latency_us: Annotated[Latency, Meta(description="Latency under one leaf.")] = round(
        _TREE.leaf_latency_s * 1e6, 6
    )
    spine_latency_us: Annotated[Latency, Meta(description="Latency between leaves of one pod.")] = round(
        _TREE.spine_latency_s * 1e6, 6
    )
    across_latency_us: Annotated[Latency, Meta(description="Latency between pods, sites, or places unknown.")] = round(
        _TREE.across_latency_s * 1e6, 6
    )
    host_gbytes_per_s: Annotated[Rate, Meta(description="Rate inside a host, shared by its endpoints.")] = (
        _TREE.host_bytes_per_s / 1e9
    )
    nic_gbytes_per_s: Annotated[Rate, Meta(description="Rate of an endpoint's network interface, one direction.")] = (
        25.0
    )
    leaf_oversubscription: Annotated[
        Rate, Meta(description="Sum of the interfaces under a leaf ÷ its uplink: 8 means 8:1.")
    ] = _TREE.leaf_oversubscription
    pod_oversubscription: Annotated[Rate, Meta(description="Sum of the leaf uplinks of a pod ÷ its uplink.")] = (
        _TREE.pod_oversubscription
    )
    uplinks_gbytes_per_s: Annotated[
        dict[str, Rate], Meta(description="Rate of the uplink of a leaf or pod by name, instead of the ratio.")
    ] = {}
    rails: Annotated[
        Count, Meta(description="Interfaces of an endpoint, each on a leaf switch of its own; a transfer uses all.")
    ] = 1
    spines: Annotated[
        Count, Meta(description="Uplinks of a leaf switch, one per spine; a flow takes one by its hash (ECMP).")
    ] = 1
    slurm_topology: Annotated[
        str,
        Meta(
            description="Slurm's topology.conf, from the working directory: the places of endpoints by their host, "
            "where they do not say them (topology.md)."
        ),
    ] = ""
    kubernetes_nodes: Annotated[
        str, Meta(description="The same from node labels: a file with what `kubectl get nodes -o json` prints.")
    ] = ""


class Service(Struct, frozen=True, kw_only=True):
    """A kind of request and what it cares about. Without any, there are `interactive` and `batch`."""

    name: Annotated[Name, Meta(description="Name of the kind.")]
    ttft_weight: Annotated[Weight, Meta(description="Worth of a second until the first token.")] = (
        INTERACTIVE.ttft_weight
    )
    tpot_weight: Annotated[Weight, Meta(description="Worth of a second between tokens.")] = INTERACTIVE.tpot_weight
    ttft_floor_s: Annotated[Weight, Meta(description="The TTFT objective is at least this.")] = INTERACTIVE.ttft_floor_s
    ttft_factor: Annotated[Weight, Meta(description="The TTFT objective in unloaded TTFTs of that prompt.")] = (
        INTERACTIVE.ttft_factor
    )
    tpot_objective_s: Annotated[Rate, Meta(description="The objective for the time per output token.")] = (
        INTERACTIVE.tpot_objective_s
    )
    miss_factor: Annotated[Weight, Meta(description="What a second past an objective counts in addition.")] = (
        INTERACTIVE.miss_factor
    )
    band: Annotated[Band, Meta(description="Whose turn comes first while not all can be served at once (flow.md).")] = (
        Band.DEFAULT
    )
    wait_s_max: Annotated[
        Rate | None, Meta(description="Longest wait for its turn, instead of `scheduler.hold_s_max`.")
    ] = None


class TrustGroup(Struct, frozen=True, kw_only=True):
    """Tenants that share prefixes with each other only (trust.md). Tenants in no group share one, the default group."""

    name: Annotated[Name, Meta(description="Name of the group. Another name makes another cache.")]
    tenants: Annotated[tuple[str, ...], Meta(description="Its tenants, as keys or `server.tenant_header` name them.")]


class Endpoint(Struct, frozen=True, kw_only=True):
    """One engine (a tensor-parallel group). One of `kv_blocks` and `kv_tokens` says how much KV its HBM holds."""

    id: Annotated[Name, Meta(description="Its name in decisions, metrics and logs.")]
    url: Annotated[
        str,
        Meta(pattern=r"^https?://[^/\s]+:[0-9]+/?$", description="Address of its API: `http://host:port`, or https."),
    ]
    role: Annotated[
        Role, Meta(description="Phases it takes. A decode endpoint can also prefill for a request that it decodes.")
    ] = Role.BOTH
    hand_off: Annotated[
        bool | HandOff,
        Meta(
            description="How its KV is handed to another engine or taken from one; true is its dialect's own way, "
            "false is not at all: then it serves whole requests only (engines.md)."
        ),
    ] = True
    bootstrap_port: Annotated[
        Port, Meta(description="Where the legs of a `bootstrap` or `mooncake` hand-off meet, on this prefill engine.")
    ] = 8998
    data_parallel_rank: Annotated[
        int | None,
        Meta(
            ge=0,
            description="Its rank, where one address stands for several data-parallel engines: each is an endpoint "
            "with the same `url`, and with the ports at which that rank publishes its events.",
        ),
    ] = None
    host: Annotated[str, Meta(description="Host it stands on. Empty is Unknown, priced as far.")] = ""
    leaf: Annotated[str, Meta(description="Leaf switch (rack) it hangs under. Empty is Unknown.")] = ""
    pod: Annotated[str, Meta(description="Pod of that leaf.")] = ""
    site: Annotated[str, Meta(description="Site of that pod.")] = ""
    kv_blocks: Annotated[Count | None, Meta(description="KV blocks of its HBM (vLLM: `num_gpu_blocks`).")] = None
    kv_tokens: Annotated[Count | None, Meta(description="The same in tokens, rounded down to blocks.")] = None
    host_tokens: Annotated[
        Tokens,
        Meta(description="Tokens of KV that it offloads to host memory (vLLM: `kv-offloading-size`, in GiB). 0: none."),
    ] = 0
    ssd_tokens: Annotated[
        Tokens, Meta(description="The same on SSD, below host memory. How much it is matters to emulated engines only.")
    ] = 0
    host_gbytes_per_s: Annotated[
        Rate, Meta(description="Rate of reading host memory into HBM, over all of its GPUs together.")
    ] = HOST_BYTES_PER_S / 1e9
    ssd_gbytes_per_s: Annotated[Rate, Meta(description="Rate of reading its SSD into host memory.")] = (
        SSD_BYTES_PER_S / 1e9
    )
    sequences_max: Annotated[Count, Meta(description="Requests it runs at a time (vLLM: `max-num-seqs`).")] = 256
    dialect: Annotated[Name, Meta(description="How to talk to it: `vllm`, `sglang` or `openai` (engines.md).")] = "vllm"
    events_url: Annotated[
        str,
        Meta(
            pattern=r"^$|^(tcp|ipc)://.+$", description="ZMQ address of its KV events. Empty: its blocks are inferred."
        ),
    ] = ""
    replay_url: Annotated[
        str, Meta(pattern=r"^$|^(tcp|ipc)://.+$", description="ZMQ address that replays missed KV events.")
    ] = ""
    model: Annotated[
        Name | None, Meta(description="Name of what it serves, instead of the model's. Only simulations have several.")
    ] = None
    profile: Annotated[Name | None, Meta(description="Its cost profile, instead of the model's.")] = None
    nic_gbytes_per_s: Annotated[Rate | None, Meta(description="Its interface, instead of the network's.")] = None
    tokens_max: Annotated[Count | None, Meta(description="Its longest request, instead of the model's.")] = None
    block_tokens: Annotated[
        Count | None, Meta(description="Its block size, instead of the model's. All endpoints must agree.")
    ] = None
    kv_bytes_per_token: Annotated[
        Count | None, Meta(description="Its KV bytes, instead of the model's. All endpoints must agree.")
    ] = None


class Config(Struct, frozen=True, kw_only=True):
    """Everything that a gateway, an embedded cluster or an emulated engine is told."""

    model: Model
    server: Server = Server()
    access: Access = Access()
    tls: Tls = Tls()
    scheduler: Scheduler = Scheduler()
    flow: Flow = Flow()
    network: Network = Network()
    record: Record = Record()
    emulator: Emulator = Emulator()
    kubernetes: Kubernetes = Kubernetes()
    service: tuple[Service, ...] = ()
    trust_group: tuple[TrustGroup, ...] = ()
    tenant: tuple[Tenant, ...] = ()
    endpoint: tuple[Endpoint, ...] = ()
