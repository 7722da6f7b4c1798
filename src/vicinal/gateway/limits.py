"""Every bound of the data path in one place. Nothing that a client or an engine sends is unbounded in bytes or time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds in bytes and wall seconds (never model seconds: these protect real sockets).

    `connections` is how many clients may be connected at a time, `address_connections` how many of one address (0: no
    bound); a further one is closed at once.
    `body_bytes` is the largest request body (more is 413), `head_bytes` the largest request line with headers, of which
    there are at most `head_fields` (431). `waiting_bytes` is what a client may send ahead while an answer is under way.
    A body above `long_body_bytes` is long: it is read in another process (reading/). Long bodies take at most
    `long_bodies_bytes` of a process's memory together; one that finds too little room is refused (503). Reading one may
    take `reading_s`.
    `answer_bytes` bounds an engine's answer that is held back before it is sent on (unstreamed answers, errors),
    `answer_head_bytes` its head, with all that is announced before it.
    `head_s` and `body_s` run from the first byte of each phase to its last, so that dripping bytes gain nothing;
    `idle_s` is how long an unused client connection stays open; `stall_s` how long a client may refuse to read;
    `linger_s` how long what a refused client still sends is read and dropped, so that it can read the refusal.
    `connect_s` bounds a connection to an engine, `engine_silence_s` a time without a byte from an engine that owes
    one, `engine_idle_s` how long an unused engine connection is kept (below uvicorn's 5 s, the common engine default).
    `drain_s` is how long running answers may take to finish when the gateway stops.
    """

    connections: int = 4096
    address_connections: int = 0
    body_bytes: int = 16 * 1024 * 1024
    head_bytes: int = 64 * 1024
    head_fields: int = 100
    waiting_bytes: int = 64 * 1024
    long_body_bytes: int = 64 * 1024
    long_bodies_bytes: int = 256 * 1024 * 1024
    reading_s: float = 30.0
    answer_bytes: int = 64 * 1024 * 1024
    answer_head_bytes: int = 64 * 1024
    head_s: float = 10.0
    body_s: float = 60.0
    idle_s: float = 75.0
    stall_s: float = 60.0
    linger_s: float = 2.0
    connect_s: float = 3.0
    engine_silence_s: float = 300.0
    engine_idle_s: float = 4.0
    engine_idle_connections: int = 256
    drain_s: float = 30.0

    @property
    def sweep_s(self) -> float:
        """How often deadlines are looked at: one timer per server instead of one per connection and phase."""
        shortest = min(
            self.head_s,
            self.body_s,
            self.idle_s,
            self.stall_s,
            self.linger_s,
            self.engine_silence_s,
            self.engine_idle_s,
        )
        return min(1.0, shortest / 4)
