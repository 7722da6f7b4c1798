"""`stale_information`: what the emptiest server is worth when nobody knows which it is.

Sixteen engines that do both phases, independent requests of one token, four fifths of capacity; the policies see only
reports, which come every so many mean service times. The least loaded of a stale report gets everybody until the next
one (Mitzenmacher, "How useful is old information?", TPDS 2000); two drawn at random do not herd. `cost` counts what it
sent itself, so it needs no report to know.
"""

from vicinal.enginemodel.profiles import profile
from vicinal.scenarios.figures import figures, mean_ttft_s
from vicinal.scenarios.laboratory import Laboratory
from vicinal.scenarios.report import Report, at_least, at_most
from vicinal.scenarios.unheld import UNHELD
from vicinal.wiring.runs import Run, Work
from vicinal.wiring.simulated import Physics, Truth

ENDPOINTS = 16
PROMPT_TOKENS = 10_000
UTILISATION = 0.8
REQUESTS = 3_000
AGES = (0.2, 1.0, 10.0)
"""Of reports when the next ones come, in mean service times."""
POLICIES = ("random", "power_of_two:by=reported_requests", "least_loaded:by=reported_requests", "cost")


def stale_information(laboratory: Laboratory) -> Report:
    """Three policies that go by reports, and one that does not, at three ages of reports."""
    name = "llama-3.1-70b-h100-tp8-vllm"
    fit = profile(name)
    # Over exponential lengths n of mean m, the mean of n² / 2 is m².
    service_s = fit.prefill_base_s + fit.prefill_s_per_token * PROMPT_TOKENS + fit.prefill_s_per_pair * PROMPT_TOKENS**2
    # Prompts are computed first come, first served, so an engine is a server with a queue.
    cluster = f"aggregated:profile={name},block_tokens=1024"
    work = Work(
        source=f"independent:prompt_tokens=exponential/{PROMPT_TOKENS},output_tokens=1",
        rate=UTILISATION * ENDPOINTS / service_s,
        limit=REQUESTS,
    )
    physics = Physics(truth=Truth.FIT, noise=0.0, until_unstable=False)
    runs = {
        f"{policy}, reports every {age:g} services": Run(
            cluster=cluster, policy=policy, heartbeat_s=age * service_s, work=work, physics=physics, config=UNHELD
        )
        for age in AGES
        for policy in POLICIES
    }
    results = laboratory.arms(runs, "stale information")
    in_system = {name: mean_ttft_s(each) / service_s for name, each in results.items()}

    def of(policy: str, age: float) -> float:
        return in_system[f"{policy}, reports every {age:g} services"]

    drawn, two, least, cost = POLICIES
    return Report(
        name="stale_information",
        about="mean time to the first token by age of reports, in mean service times; 16 servers at 80 % load",
        seeds=laboratory.seeds,
        arms={name: {"services": in_system[name], **figures(each)} for name, each in results.items()},
        verdicts=[
            at_most("fresh: least loaded ÷ power of two", of(least, 0.2) / of(two, 0.2), 1.0),
            at_least("stale (10 services): least loaded ÷ power of two", of(least, 10.0) / of(two, 10.0), 1.5),
            at_least("stale (10 services): least loaded ÷ random", of(least, 10.0) / of(drawn, 10.0), 1.0),
            at_most("cost, which counts what it sent: stale ÷ fresh", of(cost, 10.0) / of(cost, 0.2), 1.1),
        ],
    )
