"""`netkv`: what a choice of the decode endpoint by transfer time is worth, and where it is worth nothing.

NetKV (arXiv 2606.03910) claims a mean TTFT 21 % below round robin's at long prompts, on 64 H100 as groups of 4 in a
tree of oversubscribed levels; and says where the gain goes: with uplinks as wide as what hangs under them and nobody
else on them, past capacity, to a half with a KV cache of 8 bits, and partly where KV leaves during the prefill. The
same prefill rule (least loaded) goes with both decode rules here, so only the choice of the decode endpoint differs.
"""

from dataclasses import dataclass

from vicinal.scenarios.figures import figures, relative_ttft
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Report, Verdict, at_least, at_most
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics

CLUSTER = (
    "racks=4,pods=2,prefill=2,decode=2,profile=llama-3.1-70b-h100-tp4-vllm,kv_tokens=600000,block_tokens=256,"
    "nic_gbytes_per_s=12.5,pod_oversubscription=2"
)
BLIND, AWARE = "least_loaded", "netkv"
POLICIES = (BLIND, AWARE, "round_robin", "cost")


@dataclass(frozen=True, slots=True)
class World:
    """`keys` of the cluster, prompts of so many tokens (median), and requests per second of all prefill endpoints."""

    keys: str
    prompt_tokens: int = 16_000
    rate_per_s: float = 3.0
    requests: int = 1_500
    layers: int = 1

    @property
    def work(self) -> Work:
        lengths = f"lognormal/{self.prompt_tokens}/0.3/{2 * self.prompt_tokens}"
        return Work(
            source=f"independent:prompt_tokens={lengths},output_tokens=lognormal/150/0.6/800",
            rate=self.rate_per_s,
            limit=self.requests,
        )


WORLDS = {
    "8:1": World("oversubscription=8"),
    "4:1": World("oversubscription=4"),
    "1:1, nobody else": World("oversubscription=1,pod_oversubscription=1"),
    # Eight endpoints compute 1.1 such prompts per second: all wait for compute, whatever the network does.
    "4:1, past capacity": World("oversubscription=4", prompt_tokens=60_000, rate_per_s=1.8, requests=600),
    "8:1, 8-bit KV": World("oversubscription=8,kv_bits=8"),
    "8:1, KV leaves by layer": World("oversubscription=8", layers=80),
}


def netkv(laboratory: Laboratory) -> Report:
    """The gain of an aware decode choice over a blind one, in six worlds."""
    runs = {
        f"{policy}, {name}": Run(
            cluster=f"{CLUSTER},{world.keys}",
            policy=policy,
            config=UNHELD,
            work=world.work,
            physics=Physics(layers=world.layers, until_unstable=False),
        )
        for name, world in WORLDS.items()
        for policy in POLICIES
    }
    results = laboratory.arms(runs, "NetKV")

    def gain(world: str, policy: str = AWARE, to: str = BLIND) -> float:
        """By how much the mean TTFT is lower, as a share."""
        difference = relative_ttft(results[f"{policy}, {world}"], results[f"{to}, {world}"])
        return float("nan") if difference is None else -difference.mean

    full = gain("8:1")
    verdicts: list[Verdict] = [
        at_least("8:1: gain over blind choice (paper: .18 to .21)", full, 0.15),
        at_least("8:1: gain over round robin (paper: .21)", gain("8:1", to="round_robin"), 0.2),
        at_least("4:1: gain over blind choice", gain("4:1"), 0.05),
        at_most("1:1 with nobody else: gain", abs(gain("1:1, nobody else")), 0.03),
        at_most("4:1, past capacity of compute: gain", gain("4:1, past capacity"), 0.05),
        at_most("8-bit KV: its gain ÷ that of 16 bits (paper: a half)", gain("8:1, 8-bit KV") / full, 0.7),
        at_most("KV leaves by layer: its gain ÷ the serial one's", gain("8:1, KV leaves by layer") / full, 1.0),
        at_least("8:1: gain of cost over netkv", gain("8:1", "cost", AWARE), 0.0),
    ]
    return Report(
        name="netkv",
        about="mean TTFT of a network-aware decode choice beside a blind one",
        seeds=laboratory.seeds,
        arms={name: figures(each) for name, each in results.items()},
        verdicts=verdicts,
        notes=["netkv sees no switch telemetry here: docs/policies.md says what stands in its place."],
    )
