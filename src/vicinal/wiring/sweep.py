"""Many runs from one: each policy, each seed and each point of a sweep, on the same work."""

from collections.abc import Mapping, Sequence
from itertools import product

import msgspec
from msgspec.structs import replace

from vicinal.config.made import shape_keys
from vicinal.config.problems import nearest
from vicinal.wiring.runs import Run, RunError

_WORK_KEYS = ("rate", "scale", "limit", "duration_s")
_PHYSICS_KEYS = ("noise", "foresight", "truth", "background", "layers")
_RUN_KEYS = ("heartbeat_s",)


class Planned(msgspec.Struct, frozen=True):
    """A run and where it stands in the sweep: key -> value, as written."""

    run: Run
    point: dict[str, str]


def sweep_keys() -> tuple[str, ...]:
    """What can be swept: the rate and length of the work, the world, and what a made cluster can be told."""
    return (*_WORK_KEYS, *_PHYSICS_KEYS, *_RUN_KEYS, *(key for key in shape_keys() if key not in _RUN_KEYS))


def planned(
    base: Run, policies: Sequence[str], seeds: Sequence[int], sweep: Mapping[str, Sequence[str]]
) -> list[Planned]:
    """All runs, those of one point together, so that what they share is at hand. Raises RunError for unknown keys."""
    for key in sweep:
        if key not in sweep_keys():
            raise RunError(f"{key!r} cannot be swept{nearest(key, sweep_keys())}")
    points = [dict(zip(sweep, values, strict=True)) for values in product(*sweep.values())]
    return [
        Planned(replace(at(base, point), policy=policy, seed=seed), point)
        for point in points
        for policy in policies
        for seed in seeds
    ]


def at(base: Run, point: Mapping[str, str]) -> Run:
    """The run with the settings of one point."""
    work = {key: point[key] for key in _WORK_KEYS if key in point}
    physics = {key: point[key] for key in _PHYSICS_KEYS if key in point}
    own = {key: point[key] for key in _RUN_KEYS if key in point}
    rest = {key: value for key, value in point.items() if key not in work | physics | own}
    changed = msgspec.to_builtins(base)
    changed["work"] |= work
    changed["physics"] |= physics
    changed["shape"] |= rest
    changed |= own
    try:
        return msgspec.convert(changed, Run, strict=False)
    except msgspec.ValidationError as error:
        raise RunError(f"sweep: {error}") from None


def read_sweep(words: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """`key=value,value` of each word. Raises RunError for a word that says no values, or a key twice."""
    sweep: dict[str, tuple[str, ...]] = {}
    for word in words:
        key, equals, values = word.partition("=")
        listed = tuple(value.strip() for value in values.split(",") if value.strip())
        if not equals or not listed:
            raise RunError(f"--sweep {word}: write key=value,value,…")
        if key.strip() in sweep:
            raise RunError(f"--sweep {key.strip()} is given twice")
        sweep[key.strip()] = listed
    return sweep
