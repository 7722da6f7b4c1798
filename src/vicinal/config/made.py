"""Clusters made from a few numbers, for simulations: `racks=4,prefill=2,decode=2,oversubscription=8`.

Every rack has the same endpoints, each a host of its own. The figures default to those of the default cluster
(config/default.py): Llama-3.1-70B on 8 H100, but for the tiers below HBM: there are none unless they are asked for.
Nothing of such a cluster can be called, so its addresses are made up.
"""

from collections.abc import Iterator, Mapping
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import fields

from vicinal.config.fleet import Config, Endpoint, Network
from vicinal.config.problems import nearest
from vicinal.config.schema import Emulator, Model, Scheduler
from vicinal.domain.endpoint import HOST_BYTES_PER_S, SSD_BYTES_PER_S, Role
from vicinal.enginemodel.profiles import KV_BYTES_PER_TOKEN, profile

Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0)]


class MadeClusterError(ValueError):
    """Words that make no cluster; the text says which, and what would."""


class Shape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The numbers of a made cluster. `prefill`, `decode` and `both` are endpoints per rack; those that do both hand
    nothing over. Racks are dealt to `pods` in turn, and to `models` (names with / between them). `kv_bits` is the size
    of a number in the KV cache: 8 moves half of what 16 does."""

    racks: Positive = 2
    pods: Positive = 1
    prefill: Count = 2
    decode: Count = 2
    both: Count = 0
    profile: str = "llama-3.1-70b-h100-tp8-vllm"
    models: str = ""
    kv_tokens: Positive = 1_200_000
    host_tokens: Count = 0
    ssd_tokens: Count = 0
    host_gbytes_per_s: Rate = HOST_BYTES_PER_S / 1e9
    ssd_gbytes_per_s: Rate = SSD_BYTES_PER_S / 1e9
    kv_bits: Positive = 16
    block_tokens: Positive = 16
    tokens_max: Positive = 131_072
    sequences_max: Positive = 256
    batched_tokens_max: Positive = 8192
    nic_gbytes_per_s: Rate = 25.0
    rails: Positive = 1
    spines: Positive = 1
    oversubscription: Rate = 8.0
    pod_oversubscription: Rate = 1.0
    heartbeat_s: Rate = 1.0


PRESETS: Mapping[str, Mapping[str, int]] = {
    "default": {},
    "aggregated": {"prefill": 0, "decode": 0, "both": 8},
}
"""Made clusters by name: two racks of 2 P + 2 D, and two racks of 8 endpoints that do both phases."""


def made_cluster(words: str, over: Mapping[str, str] | None = None) -> Config:
    """The cluster of `preset`, `preset:key=value,…` or `key=value,…`; `over` has keys that go before those.

    Raises MadeClusterError, and UnknownProfileError for a profile that there is none of.
    """
    preset, _, rest = words.partition(":") if "=" not in words.partition(":")[0] else ("default", "", words)
    if preset not in PRESETS:
        raise MadeClusterError(f"no cluster is called {preset!r}{nearest(preset, PRESETS)}")
    values: dict[str, str | int] = dict(PRESETS[preset])
    values |= _pairs(rest)
    values |= over or {}
    return cluster_of(_shape(values))


def shape_keys() -> tuple[str, ...]:
    """What a made cluster can be told."""
    return tuple(field.name for field in fields(Shape))


def cluster_of(shape: Shape) -> Config:
    """A configuration of that shape."""
    profile(shape.profile)
    return Config(
        model=Model(
            name=shape.profile,
            profile=shape.profile,
            tokens_max=shape.tokens_max,
            kv_bytes_per_token=KV_BYTES_PER_TOKEN[shape.profile] * shape.kv_bits // 16,
            block_tokens=shape.block_tokens,
        ),
        scheduler=Scheduler(heartbeat_s=shape.heartbeat_s),
        network=Network(
            host_latency_us=5.0,
            leaf_latency_us=10.0,
            spine_latency_us=20.0,
            nic_gbytes_per_s=shape.nic_gbytes_per_s,
            rails=shape.rails,
            spines=shape.spines,
            leaf_oversubscription=shape.oversubscription,
            pod_oversubscription=shape.pod_oversubscription,
        ),
        emulator=Emulator(batched_tokens_max=shape.batched_tokens_max),
        endpoint=tuple(_endpoints(shape)),
    )


def _endpoints(shape: Shape) -> Iterator[Endpoint]:
    members = [("p", Role.PREFILL, shape.prefill), ("d", Role.DECODE, shape.decode), ("e", Role.BOTH, shape.both)]
    models = [name for name in shape.models.split("/") if name]
    number = 0
    for rack in range(1, shape.racks + 1):
        for letter, role, count in members:
            for member in range(1, count + 1):
                number += 1
                name = f"r{rack}-{letter}{member}"
                yield Endpoint(
                    id=name,
                    url=f"http://{name}.invalid:{number}",
                    role=role,
                    hand_off=role is not Role.BOTH,
                    host=f"{name}-host",
                    leaf=f"r{rack}",
                    pod=f"pod{(rack - 1) % shape.pods + 1}",
                    site="site1",
                    kv_tokens=shape.kv_tokens,
                    host_tokens=shape.host_tokens,
                    ssd_tokens=shape.ssd_tokens,
                    host_gbytes_per_s=shape.host_gbytes_per_s,
                    ssd_gbytes_per_s=shape.ssd_gbytes_per_s,
                    model=models[(rack - 1) % len(models)] if models else None,
                    sequences_max=shape.sequences_max,
                )


def _pairs(words: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for word in filter(None, words.split(",")):
        key, equals, value = word.partition("=")
        if not equals or not value:
            raise MadeClusterError(f"{word!r} says nothing about a cluster: write key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def _shape(values: Mapping[str, str | int]) -> Shape:
    known = shape_keys()
    for key in values:
        if key not in known:
            raise MadeClusterError(f"a made cluster has no {key!r}{nearest(key, known)}")
    try:
        shape = msgspec.convert(dict(values), Shape, strict=False)
    except msgspec.ValidationError as error:
        raise MadeClusterError(f"cluster: {error}") from None
    if not shape.both and not shape.decode:
        raise MadeClusterError("nobody decodes in this cluster: give it decode=N or both=N endpoints per rack")
    if not shape.both and not shape.prefill:
        raise MadeClusterError("a cluster of decode endpoints only has nobody to hand over from: give it prefill=N too")
    return shape
