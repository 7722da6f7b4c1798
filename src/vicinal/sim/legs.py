"""The legs under way: what the scheduler dispatched becomes work on engines, and their outputs become events.

Where a hand-off is concurrent the decode leg starts beside the prefill leg: it takes its blocks, and its KV sets off
when the prefill is done.
"""

from collections.abc import Callable, Mapping

from vicinal.domain.effects import Dispatch
from vicinal.domain.events import Event, FirstToken, LegFailed, PrefillDone, RequestFinished
from vicinal.domain.plan import Leg
from vicinal.enginemodel.content import Named
from vicinal.enginemodel.spec import WorkTooLargeError
from vicinal.enginemodel.work import Finished, Generated, PullWanted, Work
from vicinal.sim.job import Job, RunningLeg
from vicinal.sim.server import Server
from vicinal.sim.transfers import Pull, Transfers


class Legs:
    """`post` takes events for the scheduler, `answered` each job whose answer is complete."""

    def __init__(self, transfers: Transfers, post: Callable[[Event], None], answered: Callable[[Job], None]) -> None:
        self._transfers = transfers
        self._post = post
        self._answered = answered
        self._running: dict[str, RunningLeg] = {}
        self._pulls: dict[str, Pull] = {}
        self._early: dict[str, PullWanted] = {}

    def __len__(self) -> int:
        return len(self._running)

    def start(self, job: Job, dispatch: Dispatch, server: Server, source: Server | None, now: float) -> None:
        """Give a leg to its engine. `source` has the prompt's KV where another engine did the prefill, or does it."""
        kind = dispatch.leg
        job.attempt = dispatch.attempt
        work_id = f"{job.request.id}/{dispatch.attempt}/{kind.value}"
        hold_id = f"{job.request.id}/{dispatch.attempt}/{Leg.PREFILL.value}"
        leg = RunningLeg(job, dispatch.attempt, kind, server.id)
        if server.engine is None:
            self._fail(leg, "connection refused")
            return
        meeting = kind is Leg.DECODE and hold_id in self._running
        if (
            kind is Leg.DECODE
            and not meeting
            and (source is None or source.engine is None or source.engine.claim(hold_id, now) is None)
        ):
            self._fail(leg, "the KV that it was to pull is gone")
            return
        output_tokens = 1 if kind is Leg.PREFILL else job.arrival.output_tokens
        content = Named(job.names, job.request.prompt_tokens, output_tokens)
        try:
            server.engine.submit(Work(work_id, content, hold=kind is Leg.PREFILL, pulls=kind is Leg.DECODE), now)
        except WorkTooLargeError as error:
            self._fail(leg, str(error), client_fault=True)
            return
        self._running[work_id] = leg
        job.legs = (*job.legs, work_id)
        if source is not None and kind is Leg.DECODE:
            self._pulls[work_id] = Pull(hold_id, source, server)

    def pull(self, wanted: PullWanted, now: float) -> None:
        """A decode leg has its blocks: the KV that it lacks sets off, once it is computed."""
        pull = self._pulls[wanted.id]
        if pull.hold_id in self._running:
            self._early[pull.hold_id] = wanted
            return
        target = pull.target.endpoint
        kv_bytes = float(wanted.blocks * target.block_tokens * target.kv_bytes_per_token)
        job = self._running[wanted.id].job
        self._transfers.start(wanted.id, pull, kv_bytes, job.compute_s, now)

    def first_token(self, tokens: Generated) -> bool:
        """A work began to generate; whether that is the first token of an answer."""
        leg = self._running.get(tokens.id)
        if leg is None or leg.kind is Leg.PREFILL:
            return False
        leg.job.first_s = tokens.first_s
        self._post(FirstToken(leg.job.request.id, leg.attempt))
        return True

    def ended(self, end: Finished) -> None:
        leg = self._running.pop(end.id, None)
        if leg is None:
            return
        job = leg.job
        self._pulls.pop(end.id, None)
        job.legs = tuple(each for each in job.legs if each != end.id)
        if leg.kind is Leg.PREFILL:
            job.prefilled = leg.endpoint
            job.compute_s = end.finished_s - end.started_s - end.load_s
            job.cached_tokens, job.loaded_tokens = end.cached_tokens, end.loaded_tokens
            self._post(PrefillDone(job.request.id, leg.attempt, end.cached_tokens))
            self._meet(end)
            return
        cached_tokens = None
        if leg.kind is Leg.WHOLE:
            job.cached_tokens = cached_tokens = end.cached_tokens
            job.loaded_tokens = end.loaded_tokens
        job.done_s = end.finished_s
        self._post(RequestFinished(job.request.id, leg.attempt, end.output_tokens, cached_tokens))
        self._answered(job)

    def _meet(self, end: Finished) -> None:
        """A prefill is done. A decode leg that left with it has it kept from now on, and pulls if it is ready to."""
        pull = self._pulls.get(f"{end.id.removesuffix(Leg.PREFILL.value)}{Leg.DECODE.value}")
        if pull is None or pull.source.engine is None:
            return
        pull.source.engine.claim(end.id, end.finished_s)
        wanted = self._early.pop(end.id, None)
        if wanted is not None:
            self.pull(wanted, end.finished_s)

    def cancel(self, job: Job, servers: Mapping[str, Server], now: float) -> list[Server]:
        """Drop a job's legs and what they left. Returns the servers that have news of it."""
        touched = []
        for work_id in job.legs:
            leg = self._running.pop(work_id)
            server = servers[leg.endpoint]
            self._let_go(work_id, now)
            if server.engine is not None:
                server.engine.cancel(work_id, now)
                touched.append(server)
        job.legs = ()
        return touched

    def lose(self, server: Server, now: float) -> None:
        """A server died: whatever ran there, or was to pull from there, fails."""
        broken = {work_id for work_id, leg in self._running.items() if leg.endpoint == server.id}
        broken |= {work_id for work_id, pull in self._pulls.items() if pull.source is server}
        for work_id in sorted(broken):
            leg = self._running.pop(work_id)
            pull = self._pulls.get(work_id)
            self._let_go(work_id, now)
            if pull is not None and pull.target.engine is not None:
                pull.target.engine.cancel(work_id, now)
            leg.job.legs = tuple(each for each in leg.job.legs if each != work_id)
            self._fail(leg, f"{server.id} died")

    def _let_go(self, work_id: str, now: float) -> None:
        """End a pull, begun or not, and free what it held at its source."""
        pull = self._pulls.pop(work_id, None)
        if pull is None:
            return
        self._early.pop(pull.hold_id, None)
        if not self._transfers.abandon(work_id, now) and pull.source.engine is not None:
            pull.source.engine.release(pull.hold_id, now)

    def _fail(self, leg: RunningLeg, reason: str, *, client_fault: bool = False) -> None:
        job = leg.job
        started = job.first_s is not None and leg.kind is not Leg.PREFILL
        self._post(LegFailed(job.request.id, leg.attempt, leg.kind, reason, client_fault, started))
