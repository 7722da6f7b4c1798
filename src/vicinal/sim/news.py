"""What reaches the scheduler of the engines, and how late: reports every heartbeat, KV events as they come.

Without faults a report is there at once and so is an event. Endpoints report one after the other within a heartbeat
(or within `report_spread` of it), not all at the same time.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from vicinal.domain.events import EndpointReported, EndpointUnreachable, Event
from vicinal.sim.agenda import Agenda, Rank
from vicinal.sim.faults import EventFaults, ReportFaults
from vicinal.sim.server import KvEvent, Server

_HOUR_S = 3600.0


class News:
    """`post` takes what reaches the scheduler now; `refresh` brings a server's engine up to date before it is read."""

    def __init__(
        self,
        agenda: Agenda,
        post: Callable[[Event], None],
        refresh: Callable[[Server, float], None],
        heartbeat_s: float,
        reports: ReportFaults,
        events: EventFaults,
        stream: np.random.Generator,
        report_spread: float,
    ) -> None:
        self._agenda = agenda
        self._post = post
        self._refresh = refresh
        self._heartbeat_s = heartbeat_s
        self._reports = reports
        self._events = events
        self._stream = stream
        self._report_spread = report_spread

    def start(self, servers: Sequence[Server]) -> None:
        """Every server reports once at time 0, and then in turn."""
        for number, server in enumerate(servers):
            self._scrape(server, self._agenda.now_s, at_once=True)
            first_s = self._agenda.now_s + self._heartbeat_s * (1 + self._report_spread * number / len(servers))
            self._agenda.add(first_s, Rank.REPORT, partial(self._beat, server))
            self._plan_gap(server)

    def tell(self, event: KvEvent) -> None:
        """An engine published this."""
        if self._events.delay_s:
            self._agenda.add(self._agenda.now_s + self._events.delay_s, Rank.NEWS, lambda _: self._post(event))
        else:
            self._post(event)

    def _beat(self, server: Server, now: float) -> None:
        self._agenda.add(now + self._heartbeat_s, Rank.REPORT, partial(self._beat, server))
        if self._reports.lost and self._stream.random() < self._reports.lost:
            return
        self._scrape(server, now, at_once=False)

    def _scrape(self, server: Server, now: float, *, at_once: bool) -> None:
        if server.engine is None:
            news: Event = EndpointUnreachable(server.id, "connection refused")
        else:
            self._refresh(server, now)
            news = EndpointReported(server.report(server.engine, now))
        faults = self._reports
        delay_s = faults.delay_s + (faults.jitter_s * self._stream.random() if faults.jitter_s else 0.0)
        if at_once or not delay_s:
            self._post(news)
        else:
            self._agenda.add(now + delay_s, Rank.NEWS, lambda _: self._post(news))

    def _plan_gap(self, server: Server) -> None:
        if self._events.gaps_per_hour:
            in_s = float(self._stream.exponential(_HOUR_S / self._events.gaps_per_hour))
            self._agenda.add(self._agenda.now_s + in_s, Rank.FAULT, partial(self._gap, server))

    def _gap(self, server: Server, now: float) -> None:  # noqa: ARG002 - a gap happens when it happens
        if server.engine is not None:
            self.tell(server.gap())
        self._plan_gap(server)
