"""The made workloads by name."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from vicinal.workload import (
    conversation,
    hot_prefix,
    hot_tenant,
    independent,
    shared_system_prompts,
    short_and_long,
    tenants,
    tool_agent,
    two_models,
)
from vicinal.workload.arrival import Arrival
from vicinal.workload.bounds import ParameterError
from vicinal.workload.parameters import shaped, split, unknown
from vicinal.workload.prompt import Vocabulary


class Make(Protocol):
    """What every generator is: lazy, in time order, equal for equal arguments, a longer one beginning with the shorter.

    `count` (requests, with those of closed loops) or `duration_s` ends it, whichever comes first; ValueError without
    either. `rate`, in requests per second of model time, brings the same requests closer together. `shape` is of the
    type that is registered with it.
    """

    def __call__(
        self,
        vocabulary: Vocabulary,
        *,
        seed: int = ...,
        count: int | None = ...,
        duration_s: float | None = ...,
        rate: float = ...,
        shape: Any = ...,
    ) -> Iterator[Arrival]: ...


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator and the type of its parameters."""

    make: Make
    shape: type[Any]


GENERATORS: Mapping[str, Generator] = MappingProxyType(
    {
        "conversation": Generator(conversation.conversation, conversation.Shape),
        "conversation_closed": Generator(conversation.conversation_closed, conversation.Shape),
        "tool_agent": Generator(tool_agent.tool_agent, tool_agent.Shape),
        "shared_system_prompts": Generator(shared_system_prompts.shared_system_prompts, shared_system_prompts.Shape),
        "short_and_long": Generator(short_and_long.short_and_long, short_and_long.Shape),
        "hot_tenant": Generator(hot_tenant.hot_tenant, hot_tenant.Shape),
        "hot_prefix": Generator(hot_prefix.hot_prefix, hot_prefix.Shape),
        "two_models": Generator(two_models.two_models, two_models.Shape),
        "independent": Generator(independent.independent, independent.Shape),
        "tenants": Generator(tenants.tenants, tenants.Shape),
    }
)


def read_name(words: str) -> tuple[str, dict[str, str]]:
    """`NAME` or `NAME:key=value,key=value` as the name and the parameters, both checked.

    Raises ParameterError for an unknown name or key (naming the nearest and all that are known), for a value that is
    not understood and for one that cannot be.
    """
    name, _, rest = words.partition(":")
    name = name.strip()
    parameters = split(rest)
    shaped(_known(name).shape, name, parameters)
    return name, parameters


def generate(
    name: str,
    vocabulary: Vocabulary,
    *,
    seed: int = 0,
    count: int | None = None,
    duration_s: float | None = None,
    rate: float | None = None,
    parameters: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Arrival]:
    """The workload of that name; `rate` None is its usual one. Raises ParameterError, and ValueError without an end."""
    generator = _known(name)
    shape = shaped(generator.shape, name, parameters)
    make = partial(generator.make, vocabulary, seed=seed, count=count, duration_s=duration_s, shape=shape)
    return make() if rate is None else make(rate=rate)


def _known(name: str) -> Generator:
    if name not in GENERATORS:
        raise ParameterError(unknown("workload", name, GENERATORS))
    return GENERATORS[name]
