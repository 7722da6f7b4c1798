"""What of an emulated engine depends on the dialect that it speaks: shapes of answers, metrics, events, legs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from vicinal.domain.endpoint import Endpoint
from vicinal.domain.plan import Leg
from vicinal.emulator.events import to_event as vllm_event
from vicinal.emulator.exposition import EngineMetrics, Histogram
from vicinal.emulator.sglang_events import to_event as sglang_event
from vicinal.emulator.sglang_exposition import SGLangMetrics
from vicinal.emulator.sglang_shapes import SGLangHeading, SGLangStreamShape, sglang_model_list
from vicinal.emulator.shapes import Heading, StreamShape, model_list
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.work import CacheChange, Finished


class Metrics(Protocol):
    """One engine's page."""

    finished: dict[str, int]
    between: Histogram

    def text(self) -> bytes: ...

    def leg_finished(self, end: Finished, reason: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Face:
    """`half` says which leg an engine of that description takes, if it runs as half of a pair. `flat_errors`: an error
    answer has its fields at the top."""

    heading: type[Heading]
    stream: type[StreamShape]
    metrics: Callable[[Engine, Endpoint, int], Metrics]
    models: Callable[[str, int, int], bytes]
    to_event: Callable[[CacheChange, int], Any]
    half: Callable[[Endpoint], Leg | None]
    flat_errors: bool


def _half(endpoint: Endpoint) -> Leg | None:
    if not endpoint.hands_off:
        return None
    return Leg.DECODE if endpoint.role.decodes else Leg.PREFILL


def _vllm_metrics(engine: Engine, endpoint: Endpoint, block_bytes: int) -> Metrics:
    return EngineMetrics(engine, endpoint.model, block_bytes)


def _sglang_metrics(engine: Engine, endpoint: Endpoint, _block_bytes: int) -> Metrics:
    half = _half(endpoint)
    return SGLangMetrics(engine, endpoint.model, "unified" if half is None else half.value)


_VLLM = Face(Heading, StreamShape, _vllm_metrics, model_list, vllm_event, lambda _: None, flat_errors=False)
_SGLANG = Face(
    SGLangHeading, SGLangStreamShape, _sglang_metrics, sglang_model_list, sglang_event, _half, flat_errors=True
)


def face_of(endpoint: Endpoint) -> Face:
    """A plain OpenAI server is emulated by vLLM's face: what it has too many, nobody asks for."""
    return _SGLANG if endpoint.dialect == "sglang" else _VLLM
