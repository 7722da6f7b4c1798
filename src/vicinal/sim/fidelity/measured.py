"""Runs of a real engine that were measured per request: the files of LLMServingSim's benchmark (MIT).

A run is a folder with `meta.json` (engine arguments) and `requests.jsonl`: per request a line of lengths and stamps by
the engine core of vLLM. The stamp of the arrival is on the client's wall clock, all others are on the engine's: the
smallest difference between arrival and queueing of any request is taken as the clocks' offset.

Data-parallel ranks with experts spread over them compute every layer together, so none is ahead of another: they are
one engine with the limits of all of them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

_BLOCK_TOKENS = 16

T = TypeVar("T")


class MeasuredRequest(msgspec.Struct, frozen=True):
    """One line of requests.jsonl. `position` is in the workload's file."""

    request_id: str
    input_toks: int
    output_toks: int
    arrival_time: float
    queued_ts: float
    scheduled_ts: float
    first_token_ts: float
    last_token_ts: float

    @property
    def position(self) -> int:
        return int(self.request_id.rpartition("-")[2])


class _Arguments(msgspec.Struct, frozen=True):
    model: str
    tensor_parallel_size: int
    data_parallel_size: int
    enable_expert_parallel: bool
    max_num_seqs: int
    max_num_batched_tokens: int


class _Cache(msgspec.Struct, frozen=True):
    num_gpu_blocks: int
    block_size: int


class _Scheduler(msgspec.Struct, frozen=True):
    async_scheduling: bool = True


class _Config(msgspec.Struct, frozen=True):
    scheduler_config: _Scheduler = _Scheduler()


class _Meta(msgspec.Struct, frozen=True):
    """Version 0.19 schedules ahead unless told otherwise; the arguments of these runs do not."""

    vllm_version: str
    engine_kwargs: _Arguments
    kv_cache: _Cache | None = None
    resolved_config: _Config = _Config()


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """`requests` in order of arrival. Limits are of all ranks together; `blocks` is None where nobody wrote it down.

    `clock_offset_s` is to be subtracted from an arrival to have it on the clock of the other stamps.
    """

    name: str
    model: str
    version: str
    tensor_parallel: int
    ranks: int
    sequences_max: int
    batched_tokens_max: int
    block_tokens: int
    blocks: int | None
    async_scheduling: bool
    requests: tuple[MeasuredRequest, ...]
    clock_offset_s: float


def read_run(folder: Path, name: str) -> MeasuredRun:
    """Raises ValueError that names the file, and the line, of what is not as expected."""
    meta = _decode((folder / "meta.json").read_bytes(), _Meta, str(folder / "meta.json"))
    path = folder / "requests.jsonl"
    requests = [
        _decode(line, MeasuredRequest, f"{path}, line {number}")
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
    ]
    if not requests:
        raise ValueError(f"{path} has no request")
    for number, request in enumerate(requests, 1):
        if re.fullmatch(r".*-\d+", request.request_id) is None:
            raise ValueError(f"{path}, line {number}: request_id must end in -<position>, not {request.request_id!r}")
        if not request.queued_ts <= request.scheduled_ts < request.first_token_ts <= request.last_token_ts:
            raise ValueError(f"{path}, line {number}: the stamps of {request.request_id} are not in order")
    arguments = meta.engine_kwargs
    ranks = arguments.data_parallel_size
    if ranks > 1 and not arguments.enable_expert_parallel:
        raise ValueError(f"{folder / 'meta.json'}: {ranks} independent ranks, and no line says which served a request")
    return MeasuredRun(
        name=name,
        model=arguments.model,
        version=meta.vllm_version,
        tensor_parallel=arguments.tensor_parallel_size,
        ranks=ranks,
        sequences_max=arguments.max_num_seqs * ranks,
        batched_tokens_max=arguments.max_num_batched_tokens * ranks,
        block_tokens=meta.kv_cache.block_size if meta.kv_cache else _BLOCK_TOKENS,
        blocks=meta.kv_cache.num_gpu_blocks * ranks if meta.kv_cache else None,
        async_scheduling=meta.resolved_config.scheduler_config.async_scheduling,
        requests=tuple(sorted(requests, key=lambda r: r.arrival_time)),
        clock_offset_s=max(r.arrival_time - r.queued_ts for r in requests),
    )


class _Prompt(msgspec.Struct, frozen=True):
    input_tok_ids: list[int]


def read_prompts(path: Path) -> list[list[int]]:
    """The prompts' token ids of a workload file, a JSON object per line. Raises ValueError with the line."""
    return [
        _decode(line, _Prompt, f"{path}, line {number}").input_tok_ids
        for number, line in enumerate(path.read_bytes().splitlines(), 1)
    ]


def _decode(data: bytes, kind: type[T], where: str) -> T:
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{where}: {error}") from None
