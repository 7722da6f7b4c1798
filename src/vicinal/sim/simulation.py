"""A run in virtual time: the scheduler that runs live, fed with what modelled engines and a modelled network do.

Every happening may give the scheduler events; what it asks for is done at the same moment and may give more. When all
is settled, time moves to the next entry of the agenda. Nothing depends on wall time, so equal seeds are equal runs.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from vicinal.domain.effects import Answer, Cancel, Dispatch, Effect, Warn
from vicinal.domain.events import AlarmRang, Event, RequestArrived, TopologyChanged
from vicinal.domain.ids import RequestId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.domain.plan import Leg
from vicinal.enginemodel.background import Background
from vicinal.enginemodel.linkfaults import LinkFaults
from vicinal.enginemodel.work import Finished, Generated, PullWanted
from vicinal.scheduler.scheduler import Scheduler
from vicinal.sim.agenda import Agenda, Happening, Rank, Wake
from vicinal.sim.faults import FaultError, Faults
from vicinal.sim.job import Job
from vicinal.sim.legs import Legs
from vicinal.sim.measures import Measures
from vicinal.sim.news import News
from vicinal.sim.requests import RequestMaker
from vicinal.sim.server import Server
from vicinal.sim.stability import Backlog, Unstable
from vicinal.sim.timeline import Sampler
from vicinal.sim.transfers import Transfers
from vicinal.sim.world import World
from vicinal.workload.arrival import Arrival
from vicinal.workload.returns import ONCE, Returns

PROGRESS_EVERY = 256

_NO_ROOM = (Ending.QUEUE_FULL, Ending.WAITED_TOO_LONG, Ending.TOO_LATE, Ending.OVERLOADED)

Progress = Callable[[int, float], None]
"""Is given the requests that arrived and the virtual time, now and then."""


class Simulation:
    """One run. With a `backlog`, the run ends when requests pile up faster than they are served; `unstable` says so.

    `returns` says how clients come back who were refused: not at all, by default. A `sampler` looks on.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        world: World,
        workload: Iterator[Arrival],
        requests: RequestMaker,
        measures: Measures,
        faults: Faults,
        backlog: Backlog | None,
        returns: Returns = ONCE,
        sampler: Sampler | None = None,
    ) -> None:
        self.scheduler = scheduler
        self.world = world
        self.measures = measures
        self.unstable: Unstable | None = None
        self._workload = workload
        self._requests = requests
        self._backlog = backlog
        self._returns = returns
        self._sampler = sampler
        self._agenda = Agenda()
        self._inbox: deque[Event] = deque()
        self._dirty: dict[str, Server] = {}
        self._jobs: dict[RequestId, Job] = {}
        self._arrived = 0
        self._silent = 0
        self._coming = 0
        self._ended = False
        self.servers: Mapping[str, Server] = {
            endpoint.id: Server(endpoint, slot, world.make_engine, self._agenda, self._pump)
            for slot, endpoint in enumerate(world.fleet)
        }
        self._transfers = Transfers(self._agenda, world.network, self._touch, world.layers)
        self._legs = Legs(self._transfers, self._inbox.append, self._answered)
        self._alarm = Wake(self._agenda, Rank.ALARM, lambda _: self._inbox.append(AlarmRang()))
        self._news = News(
            self._agenda,
            self._inbox.append,
            self._pump,
            world.heartbeat_s,
            faults.reports,
            faults.events,
            world.stream,
            world.report_spread,
        )
        self._plan(faults)

    @property
    def now_s(self) -> float:
        return self._agenda.now_s

    def run(self, on_progress: Progress) -> None:
        """Run until the workload is over, or the system is seen to be unstable."""
        self._inbox.append(TopologyChanged(tuple(self.world.fleet)))
        self._news.start(list(self.servers.values()))
        self._settle()
        if self._sampler is not None:
            self._sampler.watch(self._agenda, self.scheduler, list(self.servers.values()))
        self._next_arrival()
        told = 0
        while (self._jobs or self._coming or not self._ended) and self.unstable is None and self._agenda.step():
            self._settle()
            if self._arrived >= told + PROGRESS_EVERY:
                told = self._arrived
                on_progress(told, self.now_s)
        on_progress(self._arrived, self.now_s)
        engines = [server.engine for server in self.servers.values() if server.engine is not None]
        moved, hidden = self.world.network.bytes_by_level, self._transfers.hidden_bytes
        by_level = {label: sent + hidden.get(label, 0.0) for label, sent in moved.items()}
        self.measures.close(self._jobs.values(), by_level, engines)

    def _settle(self) -> None:
        """Tell the scheduler what happened and do what it asks, until nothing is left to do at this moment."""
        now = self._agenda.now_s
        inbox, dirty = self._inbox, self._dirty
        while inbox or dirty:
            while inbox:
                for effect in self._handle(inbox.popleft(), now):
                    self._perform(effect, now)
            while dirty:
                self._pump(dirty.pop(next(iter(dirty))), now)
        self._alarm.at(self.scheduler.next_alarm())

    def _handle(self, event: Event, now: float) -> Sequence[Effect]:
        if not isinstance(event, RequestArrived):
            return self.scheduler.handle(event, now)
        began_ns = time.perf_counter_ns()
        effects = self.scheduler.handle(event, now)
        self.measures.decided((time.perf_counter_ns() - began_ns) / 1e3)
        return effects

    def _perform(self, effect: Effect, now: float) -> None:
        match effect:
            case Dispatch():
                self._dispatch(effect, now)
            case Cancel(request_id):
                job = self._jobs.get(request_id)
                if job is not None:
                    for server in self._legs.cancel(job, self.servers, now):
                        self._touch(server)
            case Answer(request_id, outcome):
                job = self._jobs.pop(request_id)
                job.outcome = outcome
                self._refused(job, outcome, now)
            case Warn(kind):
                self.measures.warned(kind)
            case _:
                pass

    def _refused(self, job: Job, outcome: Outcome, now: float) -> None:
        again = outcome.ending.retryable
        wait_s = self._returns.wait_s(outcome.retry_after_s, job.tries) if again else None
        self.measures.refused(job, now, comes_back=wait_s is not None)
        # Who is turned away for want of room is backlog, unless it is counted again when it comes back: a bounded queue
        # makes no system stable.
        self._silent -= job.first_s is None and (outcome.ending not in _NO_ROOM or wait_s is not None)
        if wait_s is None:
            self._go_on(job, now)
        else:
            self._later(now + wait_s, partial(self._come_back, job))

    def _come_back(self, job: Job, now: float) -> None:
        self._arrive(replace(job.arrival, at_s=now), now, job)

    def _dispatch(self, dispatch: Dispatch, now: float) -> None:
        job = self._jobs[dispatch.request_id]
        if job.sent_s is None:
            job.sent_s = now
        server = self.servers[dispatch.endpoint]
        source = self.servers[dispatch.plan.prefill] if dispatch.leg is Leg.DECODE else None
        self._legs.start(job, dispatch, server, source, now)
        self._touch(server)

    def _touch(self, server: Server) -> None:
        """Something was done to its engine: look at it before time moves on."""
        self._dirty[server.id] = server

    def _pump(self, server: Server, now: float) -> None:
        """Take in what an engine has done up to now, and arrange to come back when it has done more."""
        engine = server.engine
        if engine is None:
            return
        for output in engine.advance(now):
            match output:
                case Generated():
                    if output.first == 0:
                        self._silent -= self._legs.first_token(output)
                case Finished():
                    self._legs.ended(output)
                case PullWanted():
                    self._legs.pull(output, now)
                case _:
                    self._news.tell(server.event(output))
        server.wake.at(engine.next_milestone_s())

    def _next_arrival(self) -> None:
        arrival = next(self._workload, None)
        if arrival is None:
            self._ended = True
        else:
            self._agenda.add(arrival.at_s, Rank.ARRIVAL, partial(self._in_turn, arrival))

    def _in_turn(self, arrival: Arrival, now: float) -> None:
        self._next_arrival()
        self._arrive(arrival, now)

    def _arrive(self, arrival: Arrival, now: float, before: Job | None = None) -> None:
        """A request comes; `before` is the one of its errand that was refused."""
        request, names = self._requests.make(arrival, self._arrived)
        self._arrived += 1
        self._silent += 1
        asked_s, tries = (now, 1) if before is None else (before.asked_s, before.tries + 1)
        self._jobs[request.id] = Job(request, arrival, names, now, asked_s, tries)
        self.measures.arrived(now)
        self._inbox.append(RequestArrived(request))
        if self._backlog is not None:
            self.unstable = self._backlog.arrived(self._arrived, self._silent, now)

    def _answered(self, job: Job) -> None:
        del self._jobs[job.request.id]
        self._requests.answered(job.request, job.arrival.output_tokens)
        self.measures.answered(job)
        if job.done_s is not None:
            self._go_on(job, job.done_s)

    def _go_on(self, job: Job, ended_s: float) -> None:
        """The next turn of its session follows, whatever became of this one: the live load client does so too."""
        if (following := job.arrival.following(ended_s)) is not None:
            self._later(following.at_s, partial(self._arrive, following))

    def _later(self, at_s: float, arrive: Happening) -> None:
        """A client is going to send something more: the run lasts until it has."""
        self._coming += 1

        def happen(now: float) -> None:
            self._coming -= 1
            arrive(now)

        self._agenda.add(at_s, Rank.ARRIVAL, happen)

    def _plan(self, faults: Faults) -> None:
        for source in (self.world.background, LinkFaults(self.world.network.links, faults.links)):
            if source is not None:
                self._change_links(source, self._agenda.now_s)
        for death in faults.deaths:
            server = self.servers.get(death.endpoint)
            if server is None:
                raise FaultError(f"no endpoint is called {death.endpoint}: known are {', '.join(self.servers)}")
            self._agenda.add(death.at_s, Rank.FAULT, partial(self._die, server))
            if death.back_s is not None:
                self._agenda.add(death.back_s, Rank.FAULT, partial(self._start, server))

    def _change_links(self, source: Background | LinkFaults, now: float) -> None:
        """Others' traffic, or a fault, changes what links carry; come back when it changes again."""
        source.apply(self.world.network, now)
        self._transfers.arm()
        if (next_s := source.next_event_s()) is not None:
            self._agenda.add(next_s, Rank.FAULT, partial(self._change_links, source))

    def _die(self, server: Server, now: float) -> None:
        server.die()
        self._legs.lose(server, now)

    def _start(self, server: Server, now: float) -> None:  # noqa: ARG002 - a start happens when it happens
        self._news.tell(server.start())
