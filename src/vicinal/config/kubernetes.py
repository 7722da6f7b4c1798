"""The section that has endpoints found in Kubernetes, and what of a pod's endpoint the pod itself cannot say."""

from typing import Annotated

from msgspec import Meta, Struct

from vicinal.config.schema import Count, Name, Port
from vicinal.domain.endpoint import HandOff, Role

_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Kubernetes(Struct, frozen=True, kw_only=True):
    """Pods that become endpoints, besides the [[endpoint]] tables; see discovery.md. `vicinal serve` only."""

    selector: Annotated[
        str, Meta(description="Label selector of the engines' pods, such as `app=vllm`. Empty: none are looked for.")
    ] = ""
    namespace: Annotated[
        str, Meta(description="Namespace of the pods. Empty: that of the service account, else `default`.")
    ] = ""
    api_url: Annotated[
        str,
        Meta(pattern=r"^$|^https?://[^\s]+$", description="Address of the API server. Empty: that of the own cluster."),
    ] = ""
    token_file: Annotated[Name, Meta(description="The service account's token; read anew for each question.")] = (
        f"{_ACCOUNT}/token"
    )
    ca_file: Annotated[Name, Meta(description="Certificates that the API server's is checked against.")] = (
        f"{_ACCOUNT}/ca.crt"
    )
    namespace_file: Annotated[Name, Meta(description="Where the service account's namespace stands.")] = (
        f"{_ACCOUNT}/namespace"
    )
    node_places: Annotated[
        bool, Meta(description="Read places from the labels of nodes too, which takes a ClusterRole.")
    ] = True
    role_label: Annotated[Name, Meta(description="Label of a pod that says its role, as llm-d has it.")] = (
        "llm-d.ai/role"
    )
    role: Annotated[Role, Meta(description="Role of pods without that label.")] = Role.BOTH
    port: Annotated[int, Meta(ge=1, le=65535, description="Port of the engines' API (annotation `vicinal/port`).")] = (
        8000
    )
    events_port: Annotated[
        Port, Meta(description="Port of their KV events; 0: none (annotation `vicinal/events-port`).")
    ] = 0
    replay_port: Annotated[
        Port, Meta(description="Port that replays them; 0: none (annotation `vicinal/replay-port`).")
    ] = 0
    kv_blocks: Annotated[
        Count | None,
        Meta(
            description="KV blocks of each (annotation `vicinal/kv-blocks`). Without, an endpoint gets work only when "
            "its own metrics have told."
        ),
    ] = None
    dialect: Annotated[Name, Meta(description="As of [[endpoint]].")] = "vllm"
    hand_off: Annotated[bool | HandOff, Meta(description="As of [[endpoint]].")] = True
    bootstrap_port: Annotated[Port, Meta(description="As of [[endpoint]].")] = 8998
    sequences_max: Annotated[Count, Meta(description="As of [[endpoint]].")] = 256
    profile: Annotated[Name | None, Meta(description="Their cost profile, instead of the model's.")] = None
