"""The options that every command about simulated runs has."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from vicinal.cli.fault_words import read_death, read_link_fault
from vicinal.cli.trace_words import tell_trace
from vicinal.sim.faults import EventFaults, Faults, ReportFaults
from vicinal.sim.requests import Foresight
from vicinal.wiring.runs import Run, Work, is_made, read_trace
from vicinal.wiring.simulated import Physics, Truth
from vicinal.workload.trace import Spread, TraceFormat


@Parameter(name="*", group="Work")
@dataclass(frozen=True, slots=True)
class WorkOptions:
    """Which requests come, and when."""

    trace: Annotated[
        str,
        Parameter(
            help="A trace file, a decision record's folder, or a made workload as NAME or NAME:key=value,…; see "
            "docs/workloads.md."
        ),
    ] = "conversation"
    format: Annotated[TraceFormat | None, Parameter(help="The trace's format, where it should not be detected.")] = None
    limit: Annotated[int | None, Parameter(help="Only so many requests; a made workload has 2,000.")] = None
    duration: Annotated[float | None, Parameter(help="Only requests of the first so many seconds.")] = None
    rate: Annotated[float | None, Parameter(help="Requests per second on average, instead of the workload's own.")] = (
        None
    )
    scale: Annotated[float, Parameter(help="Multiplies the rate: 2 sends twice as many requests per second.")] = 1.0
    spread: Annotated[
        Spread,
        Parameter(help="How requests with one stamp are spaced over their step (Mooncake's: 3 s); at random by seed."),
    ] = Spread.AS_STAMPED

    def work(self) -> Work:
        return Work(
            source=self.trace,
            trace_format=self.format,
            limit=self.limit,
            duration_s=self.duration,
            rate=self.rate,
            scale=self.scale,
            spread=self.spread,
        )


@Parameter(name="*", group="World")
@dataclass(frozen=True, slots=True)
class WorldOptions:
    """The cluster, and what is true of it."""

    cluster: Annotated[
        str,
        Parameter(
            help="A cluster's TOML file, or a made one: default, aggregated, or key=value,… such as "
            "racks=4,prefill=2,decode=2,oversubscription=8; see docs/simulator.md."
        ),
    ] = "default"
    truth: Annotated[
        Truth, Parameter(help="What engines really take: the measured grid, or exactly the fit that is believed.")
    ] = Truth.GRID
    noise: Annotated[float, Parameter(help="Scatter of steps around that (log-normal sigma).")] = 0.05
    foresight: Annotated[
        Foresight, Parameter(help="What is known of an answer's length: the mean of earlier ones, or its true length.")
    ] = Foresight.MEAN
    heartbeat: Annotated[float | None, Parameter(help="Seconds between reports of an endpoint.")] = None
    report_delay: Annotated[float, Parameter(help="Seconds that a report takes to arrive.")] = 0.0
    report_jitter: Annotated[float, Parameter(help="Up to so many more, drawn: reports overtake each other.")] = 0.0
    report_loss: Annotated[float, Parameter(help="Share of reports that never arrive.")] = 0.0
    event_delay: Annotated[float, Parameter(help="Seconds that KV events take to arrive.")] = 0.0
    event_gaps: Annotated[
        float, Parameter(help="Times per hour and endpoint that KV events are lost beyond replay.")
    ] = 0.0
    background: Annotated[float, Parameter(help="Share of every uplink that others take, half of the time.")] = 0.0
    layers: Annotated[int, Parameter(help="Layers that leave one by one during the prefill; 1 is no overlap.")] = 1
    link_fault: Annotated[
        list[str] | None, Parameter(help="LINK*FACTOR@FROM-UNTIL, such as leaf/r1/up*0.1@60-120: a slow or dead link.")
    ] = None
    death: Annotated[
        list[str] | None, Parameter(help="ENDPOINT@AT-BACK, such as r1-p1@60-90: it dies and comes back empty.")
    ] = None
    keep_going: Annotated[bool, Parameter(help="Do not end a run in which requests pile up for good.", negative="")] = (
        False
    )

    def physics(self) -> Physics:
        return Physics(
            truth=self.truth,
            noise=self.noise,
            foresight=self.foresight,
            background=self.background,
            layers=self.layers,
            faults=Faults(
                ReportFaults(self.report_delay, self.report_jitter, self.report_loss),
                EventFaults(self.event_delay, self.event_gaps),
                tuple(read_death(words) for words in self.death or ()),
                tuple(read_link_fault(words) for words in self.link_fault or ()),
            ),
            until_unstable=not self.keep_going,
        )


def tell_work(run: Run) -> None:
    """Say what was read, where the work is a trace."""
    if not is_made(run.work.source):
        tell_trace(run.work.source, read_trace(run.work, run.seed))


def run_of(work: WorkOptions, world: WorldOptions, policy: str, seed: int) -> Run:
    """The run that these options describe."""
    return Run(
        cluster=world.cluster,
        policy=policy,
        seed=seed,
        heartbeat_s=world.heartbeat,
        work=work.work(),
        physics=world.physics(),
    )
