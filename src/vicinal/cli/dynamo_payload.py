"""Runs in a Python that has Dynamo, not vicinal: one offline replay of a Mooncake trace, timed, as one JSON object.

    PYTHON dynamo_payload.py TRACE WORKERS ENGINE_JSON

Reading the trace is part of what is timed; importing Dynamo is not.
"""

import json
import sys
import time


def main() -> None:
    trace, workers, engine = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
    from dynamo.replay.api import run_trace_replay  # type: ignore[import-not-found]

    wall_s, cpu_s = time.perf_counter(), time.process_time()
    report = run_trace_replay(
        trace,
        trace_format="mooncake",
        trace_block_size=engine["block_size"],
        replay_mode="offline",
        router_mode="kv_router",
        num_workers=workers,
        extra_engine_args={"engine": engine},
    )
    wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
    print(json.dumps({"requests": report.summary["completed_requests"], "cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    main()
