"""The engine of a row of the silicon sample, as far as it is known, and how the model's means compare with its."""

from dataclasses import dataclass
from enum import Enum

from vicinal.enginemodel.grid import truth
from vicinal.enginemodel.profiles import KV_BYTES_PER_TOKEN, profile
from vicinal.enginemodel.spec import EngineSpec
from vicinal.enginemodel.timing import Timing
from vicinal.sim.fidelity.closed_loop import Load, Means, aggregated, disaggregated
from vicinal.sim.fidelity.silicon import Shape, SiliconRow

HBM_BYTES = {"h100_sxm": 80 << 30, "h200_sxm": 141 << 30, "a100_sxm": 80 << 30}
WORKING_BYTES = 4 << 30
"""Per GPU, for activations, graphs and communication (the source's systems: 3.5 GiB and 0.4 GiB)."""

USED_SHARE = 0.9
PARAMETERS = {
    "meta-llama/Llama-3.1-70B": 70.6e9,
    "Qwen/Qwen3-32B": 32.8e9,
    "deepseek-ai/DeepSeek-V3": 671e9,
    "deepseek-ai/DeepSeek-R1": 671e9,
    "Qwen/Qwen3-235B-A22B-FP8": 235e9,
    "meta-llama/Llama-3.1-8B-Instruct": 8.03e9,
}
LATENT = ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-R1")
"""Models whose KV every rank holds whole."""

NIC_BYTES_PER_S = 50e9
BLOCK_TOKENS = 16
PROMPTS_PER_CLIENT = 10
SHORTEST = 0.8
"""What the client of InferenceMAX does, where most rows come from: ten prompts per client, all clients at once, lengths
from 80 % of the nominal ones on. How the rows without a precision were measured is not said."""

CLIENTS_MAX = 128


class Source(Enum):
    """What the model takes its seconds from: the measured grid, or the fit that the scheduler prices with."""

    GRID = "grid"
    FIT = "fit"


def timing(name: str, source: Source) -> Timing:
    return truth(name) if source is Source.GRID else profile(name)


def spec_of(row: SiliconRow, name: str, shape: Shape, source: Source) -> EngineSpec:
    """Memory is what is left beside the weights in the row's precision; KV is in 16 bits."""
    assert shape.tp is not None
    weight_bytes = PARAMETERS[row.model] * (1 if row.precision == "fp8" else 2) / shape.tp
    kv_bytes = KV_BYTES_PER_TOKEN[name] / (1 if row.model in LATENT else shape.tp)
    free = USED_SHARE * HBM_BYTES[row.system] - weight_bytes - WORKING_BYTES
    return EngineSpec(
        timing=timing(name, source),
        blocks=int(free / kv_bytes) // BLOCK_TOKENS,
        block_tokens=BLOCK_TOKENS,
        sequences_max=1024,
        batched_tokens_max=8192,
        async_scheduling=True,
    )


@dataclass(frozen=True, slots=True)
class Compared:
    """A row beside what the model says of it."""

    row: SiliconRow
    profile: str
    model: Means

    @property
    def ttft_error(self) -> float:
        return self.model.ttft_s / self.row.ttft_s - 1

    @property
    def first_ttft_error(self) -> float:
        """As if only each client's first request had been measured."""
        return self.model.first_ttft_s / self.row.ttft_s - 1

    @property
    def tpot_error(self) -> float:
        return self.model.tpot_s / self.row.tpot_s - 1


def compare(row: SiliconRow, source: Source) -> Compared:
    """Run the row's load on its engines. Raises ValueError when there is no profile or no load."""
    names = row.profiles()
    if names is None or row.clients is None:
        raise ValueError(f"{row.id}: {why_not(row)}")
    load = Load(row.clients, row.clients * PROMPTS_PER_CLIENT, row.input_tokens, row.output_tokens, SHORTEST)
    if row.serving is not None:
        means = aggregated(spec_of(row, names[0], row.serving, source), load)
    else:
        assert row.prefill is not None
        assert row.decode is not None
        means = disaggregated(
            spec_of(row, names[0], row.prefill, source),
            spec_of(row, names[1], row.decode, source),
            KV_BYTES_PER_TOKEN[names[1]] / NIC_BYTES_PER_S,
            load,
        )
    return Compared(row, names[-1], means)


def why_not(row: SiliconRow) -> str:
    """Why the model cannot say anything of that row; empty when it can."""
    if row.parallel:
        return "split by more than tensor parallelism"
    if row.profiles() is None:
        return "no profile"
    if row.clients is None:
        return "number of clients not given"
    if row.clients > CLIENTS_MAX:
        return f"more than {CLIENTS_MAX} clients"
    return ""
