"""Dialects by name."""

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType

from vicinal.domain.capabilities import CAPABILITIES
from vicinal.domain.ids import EndpointId
from vicinal.domain.report import EndpointReport
from vicinal.engines.dialect import Dialect
from vicinal.engines.errors import ErrorRules
from vicinal.engines.sglang import events as sglang_events
from vicinal.engines.sglang import metrics as sglang_metrics
from vicinal.engines.sglang.hand_off import BOOTSTRAP
from vicinal.engines.vllm import events as vllm_events
from vicinal.engines.vllm import metrics as vllm_metrics
from vicinal.engines.vllm.hand_off import MOONCAKE, NIXL


def _alive(_page: str, endpoint: EndpointId, asked_s: float) -> EndpointReport:
    """It answers, and says nothing of its load: every figure is Unknown."""
    return EndpointReport(endpoint, asked_s)


def _only_success(status: int) -> bool:
    return status == 200


def _any_answer_of_its_own(status: int) -> bool:
    """A server that wants a key, or has no such route, is there; one whose gateway says 502 or 503 is not."""
    return 200 <= status < 500


VLLM = Dialect(
    name="vllm",
    can=CAPABILITIES["vllm"],
    sign_path="/metrics",
    answers_alive=_only_success,
    read_report=vllm_metrics.parse_report,
    rank_label="engine",
    errors=ErrorRules(
        ("maximum context length", "maximum model length", "max_model_len", "maximum input length"),
    ),
    ways=MappingProxyType({way.kind: way for way in (NIXL, MOONCAKE)}),
    decode_batch=vllm_events.decode,
)

SGLANG = Dialect(
    name="sglang",
    can=CAPABILITIES["sglang"],
    sign_path="/metrics",
    answers_alive=_only_success,
    read_report=sglang_metrics.parse_report,
    rank_label="dp_rank",
    errors=ErrorRules(
        (
            "longer than the model's context length",
            "exceeds the model's maximum context length",
            "maximum allowed length",
        ),
    ),
    ways=MappingProxyType({BOOTSTRAP.kind: BOOTSTRAP}),
    decode_batch=sglang_events.decode,
)

OPENAI = Dialect(
    name="openai",
    can=CAPABILITIES["openai"],
    sign_path="/v1/models",
    answers_alive=_any_answer_of_its_own,
    read_report=_alive,
    rank_label="",
    errors=ErrorRules(("maximum context length", "context_length_exceeded", "context length", "context size")),
    ways=MappingProxyType({}),
)

DIALECTS: Mapping[str, Dialect] = MappingProxyType({each.name: each for each in (VLLM, SGLANG, OPENAI)})


class UnknownDialectError(ValueError):
    """No dialect has that name; the message says which there are."""


def dialect(name: str) -> Dialect:
    """The dialect of that name. Raises UnknownDialectError."""
    if (found := DIALECTS.get(name)) is not None:
        return found
    near = get_close_matches(name, list(DIALECTS), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UnknownDialectError(f"unknown dialect {name!r}.{hint} Known: {', '.join(DIALECTS)}")
