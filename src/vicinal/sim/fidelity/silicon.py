"""Measured means of whole servers under a closed loop: the rows of AIConfigurator's silicon sample (Apache-2.0).

Each row is a model on a system under a backend, with so many clients of which each sends its next request when it has
its answer, all with the same input and output lengths, and the mean TTFT and TPOT that were measured.
"""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from vicinal.enginemodel.profiles import NAMES

MODELS = {
    "meta-llama/Llama-3.1-70B": "llama-3.1-70b",
    "Qwen/Qwen3-32B": "qwen3-32b",
    "deepseek-ai/DeepSeek-V3": "deepseek-v3",
    "deepseek-ai/DeepSeek-R1": "deepseek-v3",
    "Qwen/Qwen3-235B-A22B-FP8": "qwen3-235b-a22b-fp8",
    "meta-llama/Llama-3.1-8B-Instruct": "llama-3.1-8b",
}
"""The sample's models of which there is a profile on some system. DeepSeek-R1 has V3's shape."""


class Shape(NamedTuple):
    """`workers` engines, each over `tp` GPUs in tensor parallel; None where the source does not say."""

    workers: int | None
    tp: int | None


@dataclass(frozen=True, slots=True)
class SiliconRow:
    """`serving` is how an aggregated server is split, `prefill` and `decode` a disaggregated one. Seconds are means.

    `parallel`: what else than tensor parallelism it is split by, empty for nothing. `clients` is None where it is not
    known.
    """

    id: str
    model: str
    system: str
    backend: str
    precision: str
    parallel: str
    serving: Shape | None
    prefill: Shape | None
    decode: Shape | None
    input_tokens: int
    output_tokens: int
    clients: int | None
    ttft_s: float
    tpot_s: float

    @property
    def what(self) -> tuple[object, ...]:
        """Everything but its name and what was measured."""
        shapes = self.parallel, self.serving, self.prefill, self.decode
        return self.engine, self.precision, *shapes, self.input_tokens, self.output_tokens, self.clients

    @property
    def mode(self) -> str:
        return "aggregated" if self.serving else "disaggregated"

    @property
    def engine(self) -> str:
        """Model, system and backend, as a profile's name begins and ends."""
        return f"{MODELS[self.model]}-{self.system.removesuffix('_sxm')}-tp?-{self.backend}"

    def profiles(self) -> list[str] | None:
        """Its engines' profiles, prefill before decode; None when one of them does not exist."""
        shapes = [s for s in (self.serving, self.prefill, self.decode) if s is not None]
        names = [self.engine.replace("?", str(shape.tp)) for shape in shapes]
        return names if all(name in NAMES for name in names) and not self.parallel else None


def read_rows(path: Path) -> list[SiliconRow]:
    """The rows of `MODELS`. Raises ValueError with the line of one that cannot be read."""
    with path.open(newline="") as file:
        return list(_rows(path, csv.DictReader(file)))


def distinct(rows: Iterable[SiliconRow]) -> list[SiliconRow]:
    """Without those that say the same of the same server again: the sample joins several dumps of one data base."""
    return list({(*row.what, row.ttft_s, row.tpot_s): row for row in rows}.values())


def _rows(path: Path, lines: Iterable[dict[str, str]]) -> Iterator[SiliconRow]:
    for number, line in enumerate(lines, 2):
        try:
            if line["model_path"] in MODELS:
                yield _row(line)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{path}, line {number}: {error}") from None


def _row(line: dict[str, str]) -> SiliconRow:
    aggregated = line["mode"] == "agg"
    clients = re.search(r"silicon_concurrency=(\d+)", line["silicon_data_source"])
    parts = ("",) if aggregated else ("prefill_", "decode_")
    other = sorted(
        {
            f"{what} {line[part + key]}"
            for part in parts
            for key, what in (("pp_size", "pipeline"), ("attention_dp_size", "data"))
            if line[part + key] not in ("", "0", "1")
        }
    )
    return SiliconRow(
        id=line["id"],
        model=line["model_path"],
        system=line["system"],
        backend=line["backend"],
        precision=line["precision"] or "not given",
        parallel=", ".join(other),
        serving=Shape(1, _count(line["tp_size"])) if aggregated else None,
        prefill=None if aggregated else _shape(line, "prefill"),
        decode=None if aggregated else _shape(line, "decode"),
        input_tokens=int(line["isl"]),
        output_tokens=int(line["osl"]),
        clients=int(clients[1]) if clients else None,
        ttft_s=float(line["silicon_ttft_ms"]) / 1e3,
        tpot_s=float(line["silicon_tpot_ms"]) / 1e3,
    )


def _shape(line: dict[str, str], phase: str) -> Shape:
    return Shape(_count(line[f"{phase}_num_workers"]), _count(line[f"{phase}_tp_size"]))


def _count(text: str) -> int | None:
    return int(text) if text else None
