"""How much more two relays carry than one, where every process of the gateway has a core of its own.

    python -m tests.soak.scaling --share 0.2

A machine with few cores is given many slow ones: each process of the gateway may use so much of a core and no more
(Linux control groups; needs root), and what is left is enough for mock engines and load. Prints requests/s at
saturation by the number of relays, and which process had its whole share.
"""

import argparse
import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.soak.idle_streams import children
from vicinal.cli.bench_gateway import KINDS, GatewayBench, _engines, _loaded, _started
from vicinal.cli.bench_gateway_routers import Router, Setting, _vicinal
from vicinal.cli.bench_gateway_tree import tree_cpu_s

GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 10_000


@contextlib.contextmanager
def limited(pids: dict[str, int], share: float) -> Iterator[None]:
    """Each process, with the children that it will have, gets `share` of a core."""
    made = []
    try:
        for name, pid in pids.items():
            group = GROUPS / f"vicinal-{name}-{pid}"
            group.mkdir()
            made.append(group)
            (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * PERIOD_US)))
            (group / "cgroup.procs").write_text(str(pid))
        yield
    finally:
        for group in made:
            with contextlib.suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    (GROUPS / "cgroup.procs").write_text(pid)
                group.rmdir()


def with_relays(count: int) -> Router:
    """Also one relay is a process beside the core."""
    made = _vicinal(2)

    def command(at: Setting) -> list[str]:
        return [*made.command(at)[:-1], str(count)]

    return Router(f"vicinal, {count} relays", made.settings, command)


def measure(share: float, relays: list[int], seconds: float) -> None:
    bench = GatewayBench(seconds=seconds, warm_s=3.0)
    with tempfile.TemporaryDirectory() as folder, _engines(bench) as engines:
        for kind in KINDS:
            first = None
            for count in relays:
                place = Path(folder) / f"{kind}-{count}"
                place.mkdir()
                with _started(with_relays(count), place, engines) as (port, root):
                    pids = {name: pid for name, pid in children(root).items() if name != "serve"}
                    with limited(pids, share):
                        before = {name: tree_cpu_s(pid) for name, pid in pids.items()}
                        began_s = time.monotonic()
                        seen, _ = _loaded(bench, [port], kind)
                        took_s = time.monotonic() - began_s
                        used = {name: (tree_cpu_s(pid) - before[name]) / took_s for name, pid in pids.items()}
                rate = seen.requests / seen.seconds
                first = first or rate
                shares = ", ".join(f"{name} {used[name] / share:.0%}" for name in sorted(used))
                words = f"{rate:.0f} requests/s, {rate / first:.2f} times the first"
                print(f"{kind}, {count} relays: {words}; of their share: {shares}; failed {seen.failed}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--share", type=float, default=0.2, help="of a core, for each process of the gateway")
    parser.add_argument("--relays", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--seconds", type=float, default=8.0)
    given = parser.parse_args()
    measure(given.share, given.relays, given.seconds)
