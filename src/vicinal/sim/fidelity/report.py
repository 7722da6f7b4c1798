"""Everything that is known of the model's fidelity, computed from the measurements."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from vicinal.sim.fidelity.halves import Prediction, Split, predict
from vicinal.sim.fidelity.measured import MeasuredRun, read_prompts, read_run
from vicinal.sim.fidelity.servers import Compared, Source, compare, why_not
from vicinal.sim.fidelity.silicon import distinct, read_rows

SILICON = Path("profiles/aiconfigurator/silicon_sample.csv")
RUNS = Path("profiles/vllm-ground-truth")
PROMPTS = Path("traces/sharegpt/sharegpt-llama-3.1-8b-300-sps10.jsonl")


@dataclass(frozen=True, slots=True)
class FidelityReport:
    """`unusable` counts the rows of the silicon sample of which the model says nothing: (model, mode, reason)."""

    predictions: tuple[Prediction, ...]
    without_async_scheduling: tuple[Prediction, ...]
    servers: tuple[Compared, ...]
    unusable: tuple[tuple[str, str, str, int], ...]


def fidelity_report(folder: Path, source: Source = Source.GRID) -> FidelityReport:
    """Everything, from the files under `folder`; takes minutes. Raises OSError or ValueError that names the file."""
    rows = distinct(read_rows(folder / SILICON))
    unusable = Counter((row.model, row.mode, reason) for row in rows if (reason := why_not(row)))
    return FidelityReport(
        predict_runs(folder),
        predict_without_async_scheduling(folder),
        tuple(compare(row, source) for row in rows if not why_not(row)),
        tuple((*key, number) for key, number in sorted(unusable.items())),
    )


def predict_runs(folder: Path, splits: Sequence[Split] = tuple(Split)) -> tuple[Prediction, ...]:
    """Every measured run under `folder`, by its GPU and model. Raises FileNotFoundError when there is none."""
    prompts = read_prompts(folder / PROMPTS)
    return tuple(predict(run, prompts, split) for run in _runs(folder) for split in splits)


def predict_without_async_scheduling(folder: Path) -> tuple[Prediction, ...]:
    """The same by time, with a model that decides every step when it begins: what that one rule is worth."""
    prompts = read_prompts(folder / PROMPTS)
    return tuple(predict(replace(run, async_scheduling=False), prompts, Split.TIME) for run in _runs(folder))


def _runs(folder: Path) -> list[MeasuredRun]:
    found = sorted((folder / RUNS).glob("*/*/vllm/meta.json"))
    if not found:
        raise FileNotFoundError(f"no run (GPU/model/vllm/meta.json) in {folder / RUNS}")
    return [read_run(meta.parent, f"{meta.parts[-4]} {meta.parts[-3]}") for meta in found]
