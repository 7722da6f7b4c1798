"""Where scenarios make their runs: side by side, with progress, and each policy with the same seeds."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from vicinal.scenarios.report import ScenarioError
from vicinal.sim.result import Result
from vicinal.wiring.parallel import Workers
from vicinal.wiring.runs import Run

TRUSTED = "[server]\ntrust_tenant_header = true\n"
"""What a configuration with tenants needs, so that anybody's tenant is known."""


@dataclass(frozen=True, slots=True)
class Laboratory:
    """`seeds` runs of everything, by `workers`. `traces` is where public traces are, if they are anywhere.
    `say` is told what is being done."""

    seeds: int
    workers: Workers
    traces: Path | None
    say: Callable[[str], None]

    def results(self, runs: Sequence[Run], about: str) -> list[Result]:
        """What comes of each, in order."""
        done = 0

        def one_more(_place: int, _outcome: object) -> None:
            nonlocal done
            done += 1
            self.say(f"{about}: {done} of {len(runs)} runs")

        self.say(f"{about}: {len(runs)} runs")
        return [outcome.result for outcome in self.workers.outcomes(runs, one_more)]

    def arms(self, runs: Mapping[str, Run], about: str) -> dict[str, list[Result]]:
        """Every arm with every seed."""
        planned = [replace(run, seed=seed) for run in runs.values() for seed in range(self.seeds)]
        results = self.results(planned, about)
        return {name: results[place * self.seeds : (place + 1) * self.seeds] for place, name in enumerate(runs)}

    def trace(self, name: str) -> str:
        """The path of a public trace such as `mooncake/conversation_trace.jsonl`. Raises ScenarioError without it."""
        if self.traces is None:
            raise ScenarioError(
                f"this scenario needs the public trace {name}: name the folder of the traces with --traces or "
                "VICINAL_TRACES (docs/workloads.md says where they come from)"
            )
        path = self.traces / name
        if not path.is_file():
            raise ScenarioError(f"{path}: no such trace; --traces or VICINAL_TRACES name the folder that has it")
        return str(path)
