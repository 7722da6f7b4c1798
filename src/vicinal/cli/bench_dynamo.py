"""Dynamo's offline simulator as the peer of ours: the same trace, fleet and timing, in a Python that has it.

The fleet is 16 aggregated workers behind Dynamo's KV router. Its engines get the figures of our profile as tables;
its table of prefill has one axis, the new tokens of a step, so there attention to what is cached costs nothing.
"""

import json
import os
import subprocess
from pathlib import Path

import msgspec
import numpy as np

from vicinal.cli import dynamo_payload
from vicinal.domain.endpoint import Endpoint
from vicinal.enginemodel.profiles import profile

PYTHON_VARIABLE = "VICINAL_DYNAMO_PYTHON"
"""Names a Python interpreter that has `dynamo.replay`."""

_POINTS = 257


class Timed(msgspec.Struct, frozen=True):
    """One run: how many requests were completed, and seconds of CPU and of wall."""

    requests: int
    cpu_s: float
    wall_s: float


class PeerError(RuntimeError):
    """The peer did not run; the text ends with what it said."""


def replay(python: str, trace: Path, workers: int, endpoint: Endpoint, folder: Path) -> Timed:
    """One replay in a process of its own, on `workers` such endpoints. Tables are written into `folder`."""
    tables = folder / "tables.npz"
    write_tables(endpoint, tables)
    engine = {
        "block_size": endpoint.block_tokens,
        "num_gpu_blocks": endpoint.kv_blocks,
        "max_num_seqs": endpoint.sequences_max,
        "max_num_batched_tokens": 8192,
        "timing_model": {"type": "external", "provider": "dynamo_profile", "config": {"path": str(tables)}},
    }
    command = [python, str(Path(dynamo_payload.__file__)), str(trace), str(workers), json.dumps(engine)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, env=environment | {"DYN_LOG": "error"}, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-500:]
        raise PeerError(f"{python} ({PYTHON_VARIABLE}) could not replay {trace}: {said}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Timed)


def write_tables(endpoint: Endpoint, path: Path) -> None:
    """The endpoint's profile as the tables of Dynamo's timing provider, in ms, linear between their points."""
    fit = profile(endpoint.profile)
    new = np.unique(np.concatenate((np.arange(0.0, 1024.0, 16.0), np.linspace(1024.0, endpoint.model_tokens_max, 512))))
    active = np.linspace(0.0, endpoint.kv_tokens, _POINTS)
    context = np.unique(np.concatenate((np.linspace(1.0, 4096.0, 64), np.linspace(4096.0, 131_072.0, _POINTS))))
    tokens, length = np.meshgrid(active, context, indexing="ij")
    np.savez(
        path,
        prefill_isl=new,
        prefill_ttft_ms=1e3 * fit.prefill_s(new, np.zeros_like(new)),
        decode_active_kv_tokens=active,
        decode_context_length=context,
        decode_itl=1e3 * fit.step_s(np.maximum(1.0, tokens / length), tokens),
    )
