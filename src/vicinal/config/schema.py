"""The sections that describe the gateway and what it schedules for: one Struct per TOML table.

Each key carries its limits and its documentation in its annotation. Units are last in names.
"""

from typing import Annotated

from msgspec import Meta, Struct

Port = Annotated[int, Meta(ge=0, le=65535)]
Name = Annotated[str, Meta(min_length=1)]
Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
MIB = 1024 * 1024


class Server(Struct, frozen=True, kw_only=True):
    """Where clients and operators reach the gateway, and what it lets a client take."""

    host: Annotated[Name, Meta(description="Address of the OpenAI-compatible API.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Port of the API. 0 takes any free port.")] = 8000
    admin_host: Annotated[Name, Meta(description="Address of metrics, state and dashboard.")] = "127.0.0.1"
    admin_port: Annotated[Port, Meta(description="Port of metrics, state and dashboard. 0 takes any free port.")] = 8001
    body_bytes_max: Annotated[Count, Meta(description="A larger request body is answered with 413.")] = 16 * MIB
    long_body_bytes: Annotated[
        Count, Meta(description="Request bodies above this are read by a process of their own (http.md).")
    ] = 64 * 1024
    long_bodies_bytes_max: Annotated[
        Count, Meta(description="Memory of a process for all of those together; one that finds no room gets 503.")
    ] = 256 * MIB
    body_read_timeout_s: Annotated[Seconds, Meta(description="A long body is read within this, or refused.")] = 30.0
    header_bytes_max: Annotated[Count, Meta(description="Larger request headers are answered with 431.")] = 64 * 1024
    header_fields_max: Annotated[Count, Meta(description="More header fields are answered with 431.")] = 100
    connections_max: Annotated[Count, Meta(description="Client connections at a time; further ones are closed.")] = 4096
    connections_per_address_max: Annotated[
        int, Meta(ge=0, description="Those of one client address, of an IPv6 client's /64. 0 means no bound (http.md).")
    ] = 0
    header_timeout_s: Annotated[
        Seconds, Meta(description="A client has this long to send its headers, from their first byte.")
    ] = 10.0
    body_timeout_s: Annotated[Seconds, Meta(description="A client has this long to send a body.")] = 60.0
    idle_timeout_s: Annotated[Seconds, Meta(description="A connection without a request is closed after this.")] = 75.0
    connect_timeout_s: Annotated[Seconds, Meta(description="An engine has this long to accept a connection.")] = 3.0
    engine_silence_s: Annotated[
        Seconds, Meta(description="An engine that sends nothing for this long during a request has failed it.")
    ] = 300.0
    relays: Annotated[
        int,
        Meta(ge=0, description="Processes that carry requests beside the scheduler's; 0: all in one (processes.md)."),
    ] = 0
    core_wait_s: Annotated[
        Seconds, Meta(description="While the scheduler's process restarts, relays hold new requests for so long.")
    ] = 10.0
    trust_tenant_header: Annotated[
        bool,
        Meta(
            description="Take the tenant from `tenant_header`, before that of a key, where one of "
            "`access.trusted_peers` sends it: your own front, which sets it and removes what clients send as such."
        ),
    ] = False
    tenant_header: Annotated[Name, Meta(description="The header that names the tenant.")] = "x-vicinal-tenant"
    isolate_tenants: Annotated[
        bool,
        Meta(description="Each tenant that is in no [[trust_group]] shares prefixes with nobody (trust.md)."),
    ] = False
    class_header: Annotated[
        Name, Meta(description="The header that names the kind of request ([[service]]); trusted like the tenant's.")
    ] = "x-vicinal-class"


class Model(Struct, frozen=True, kw_only=True):
    """The model that the endpoints serve. Figures of an endpoint default to these."""

    name: Annotated[Name, Meta(description="The name that clients ask for and that engines serve.")]
    profile: Annotated[Name, Meta(description="Name of the cost profile: seconds of compute by length and batch.")]
    tokens_max: Annotated[Count, Meta(description="Longest prompt and answer together (vLLM: `max_model_len`).")]
    kv_bytes_per_token: Annotated[Count, Meta(description="Bytes of KV per token, over all layers and ranks.")]
    block_tokens: Annotated[Count, Meta(description="Tokens of a KV block (vLLM: `block-size`).")] = 16
    tokenizer: Annotated[
        str,
        Meta(
            description="Folder with `tokenizer.json` and `tokenizer_config.json`, from the working directory; `tiny` "
            "is the packaged one, and empty means none: prompts that are not token ids are matched by text (tokens.md)."
        ),
    ] = ""


class Scheduler(Struct, frozen=True, kw_only=True):
    """How a request is placed, and how long it may wait for its place."""

    policy: Annotated[
        Name,
        Meta(description="The rule that takes a row of the decision table: `name`, or `name:key=value+key=value`."),
    ] = "cost"
    seed: Annotated[int, Meta(ge=0, description="Seed of every random choice; equal seeds decide equally.")] = 0
    attempts_max: Annotated[Count, Meta(description="Plans that one request may use up before it fails.")] = 3
    hold_s_max: Annotated[Seconds, Meta(description="Longest wait for room; then 503 with Retry-After.")] = 30.0
    queue_max: Annotated[int, Meta(ge=0, description="Requests held at a time; a further one gets 429.")] = 4096
    heartbeat_s: Annotated[Seconds, Meta(description="Interval between reports of an endpoint.")] = 1.0
    index_blocks_max: Annotated[
        Count,
        Meta(description="KV blocks that the index knows at most, about 250 bytes each; the coldest are given up."),
    ] = 8_000_000
    inferred_ttl_s: Annotated[
        Seconds,
        Meta(description="So long after its last use a prompt is believed to be on an endpoint without KV events."),
    ] = 300.0


class Record(Struct, frozen=True, kw_only=True):
    """The decision record, which is always on: where it is kept and how much of it."""

    directory: Annotated[Name, Meta(description="Folder of the record, from the working directory.")] = "vicinal-data"
    file_mbytes_max: Annotated[float, Meta(gt=0, description="A file of this size is followed by a new one.")] = 64.0
    files_max: Annotated[Count, Meta(description="Files kept; the oldest is deleted.")] = 16


class Emulator(Struct, frozen=True, kw_only=True):
    """The emulated engines of `vicinal up` and `vicinal engine`. `vicinal serve` does not read this section."""

    speed: Annotated[float, Meta(gt=0, description="Model seconds that pass in one second.")] = 1.0
    emit_interval_ms: Annotated[
        float, Meta(gt=0, description="Shortest wall time between two chunks of a stream; tokens between share one.")
    ] = 5.0
    batched_tokens_max: Annotated[
        Count, Meta(description="Tokens that one step may process (vLLM: `max_num_batched_tokens`).")
    ] = 8192
    default_output_tokens: Annotated[
        Count, Meta(description="Length of an answer whose request does not say `max_tokens`.")
    ] = 256
