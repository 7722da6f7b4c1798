"""Dynamo's `RadixTree` as the peer of our index, in the same process, where it is installed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Protocol

from vicinal.cli.bench_dynamo import PYTHON_VARIABLE, PeerError


class PeerTree(Protocol):
    """The part of `dynamo._core.RadixTree` that is measured."""

    def apply_event(self, worker_id: int, kv_cache_event_bytes: bytes) -> None: ...

    def find_matches(self, sequence: Sequence[int], early_exit: bool = False) -> Any:
        """An object whose `scores` maps a worker to its blocks."""
        ...


@cache
def peer_type() -> type[PeerTree] | None:
    """The class, if `dynamo` can be imported here, or out of the Python that VICINAL_DYNAMO_PYTHON names.

    That Python's packages come last on the path, so that our own are still the ones in use. Raises PeerError when it
    is named and has none.
    """
    python = os.environ.get(PYTHON_VARIABLE)
    try:
        core = import_module("dynamo._core")
    except ImportError:
        if python is None:
            return None
        asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('platlib'))"]
        sys.path.append(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
        try:
            core = import_module("dynamo._core")
        except ImportError as error:
            raise PeerError(f"{python} ({PYTHON_VARIABLE}) has no dynamo that can be imported: {error}") from error
    found: type[PeerTree] = core.RadixTree
    return found
