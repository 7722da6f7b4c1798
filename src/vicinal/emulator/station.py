"""One emulated engine as a whole: its model and driver, its KV events, its figures. Its HTTP face is serving.py."""

import logging
import time
from collections.abc import Callable
from urllib.parse import urlsplit
from uuid import uuid4

from vicinal.clock import ModelClock
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.plan import Leg
from vicinal.emulator.bodies import HandOff
from vicinal.emulator.driver import EngineDriver
from vicinal.emulator.errors import HandOffError, HolderGoneError
from vicinal.emulator.events import EventPublisher
from vicinal.emulator.face import Face, face_of
from vicinal.emulator.leg import LegBrokenError, RunningLeg
from vicinal.emulator.order import Order, OrderReader
from vicinal.emulator.rooms import Address, Meeting, Rooms
from vicinal.emulator.speech import Speech, TextCodec
from vicinal.emulator.stamps import Stamps
from vicinal.emulator.transfers import Pull, Transfers
from vicinal.enginemodel.content import Content, Text
from vicinal.enginemodel.engine import Engine
from vicinal.enginemodel.profiles import profile
from vicinal.enginemodel.spec import EngineSpec, tiers_below
from vicinal.enginemodel.work import Finished, Work
from vicinal.wire.stamps import Stamp

_log = logging.getLogger(__name__)


class Station:
    """`find` gives the living station of an engine id, or None; `serves` whether one has this bootstrap server."""

    def __init__(
        self,
        endpoint: Endpoint,
        slot: int,
        clock: ModelClock,
        transfers: Transfers,
        codec: TextCodec,
        speech: Speech,
        find: Callable[[str], "Station | None"],
        rooms: Rooms,
        serves: Callable[[Address], bool],
        emit_interval_s: float,
        natural_tokens: int,
        lease_s: float,
        batched_tokens_max: int,
    ) -> None:
        spec = EngineSpec(
            profile(endpoint.profile),
            endpoint.kv_blocks,
            endpoint.block_tokens,
            sequences_max=endpoint.sequences_max,
            lease_s=lease_s,
            batched_tokens_max=batched_tokens_max,
            below=tiers_below(endpoint),
        )
        self.endpoint = endpoint
        self.engine_id = str(uuid4())
        self.created = int(time.time())
        self.face: Face = face_of(endpoint)
        self.fingerprint = f"vllm-0.32.0-{self.engine_id[:8]}"
        self.clock = clock
        self.codec = codec
        self.speech = speech
        self.stamps = Stamps()
        self.publisher = EventPublisher(endpoint.block_tokens, to_event=self.face.to_event)
        half = self.face.half(endpoint)
        self.orders = OrderReader(endpoint.model, endpoint.model_tokens_max, natural_tokens, codec, half)
        self.bootstrap: Address | None = None
        if half is Leg.PREFILL:
            self.bootstrap = (urlsplit(endpoint.url).hostname or "", endpoint.bootstrap_port)
        self.hand_offs_refused = 0
        self._block_bytes = endpoint.block_tokens * endpoint.kv_bytes_per_token
        self._find = find
        self._rooms = rooms
        self._serves = serves
        engine = Engine(spec)
        self.metrics = self.face.metrics(engine, endpoint, self._block_bytes)
        self.driver = EngineDriver(
            engine,
            slot,
            clock,
            transfers,
            emit_interval_s,
            self.publisher.publish,
            self._leg_finished,
            lambda count, between_s: self.metrics.between.observe(between_s, count),
        )

    def begin(self, order: Order, answer_id: str, request_id: str) -> RunningLeg:
        """Start a leg. Raises HandOffError, HolderGoneError, or what Engine.submit raises."""
        kind, meeting = order.kind, self._meeting(order)
        output = self.speech.tokens(order.prompt, order.output_tokens, order.seed)
        work = Work(
            id=f"{answer_id}-0-{uuid4().hex[:8]}",
            content=Text(order.prompt, output, order.salt),
            hold=kind is Leg.PREFILL and order.reason == "length",
            pulls=kind is Leg.DECODE,
        )
        pull: Pull | None = None
        if meeting is not None:
            pull = Pull(meeting, meeting.name, self._block_bytes) if kind is Leg.DECODE else None
        elif kind is Leg.DECODE:
            pull = self._claim(order)
        leg = RunningLeg(work, output, request_id, kind, order.reason)
        if meeting is not None:
            meeting.join(kind, self.driver, leg)
        try:
            self.driver.submit(leg, pull)
        except ValueError as error:
            if meeting is not None:
                meeting.break_up(str(error), self.clock.now())
            elif pull is not None:
                pull.holder.release(pull.hold_id, self.clock.now())
            raise
        return leg

    def drop(self, leg: RunningLeg) -> None:
        """Nobody waits for this leg any more: because it is over, or because its client is gone."""
        if leg.meeting is not None and leg.kind is Leg.PREFILL:
            leg.meeting.break_up("the prefill leg was given up", self.clock.now())
        if self.driver.cancel(leg.work.id):
            self.metrics.finished["abort"] += 1

    def note_broken(self, leg: RunningLeg, error: LegBrokenError) -> None:
        self.metrics.finished["error"] += 1
        _log.error("%s: request %s: %s", self.endpoint.id, leg.request_id, error)

    def hand_off(self, leg: RunningLeg, end: Finished) -> HandOff | None:
        """What a decode leg has to bring along to pull what this leg left; None when it left nothing."""
        if end.held_blocks is None or leg.meeting is not None:
            return None
        return HandOff(
            do_remote_prefill=True,
            remote_block_ids=[list(end.held_blocks)],
            remote_engine_id=self.engine_id,
            remote_request_id=leg.work.id,
            remote_host="127.0.0.1",
            remote_port=5600 + self.driver.slot,
            remote_num_tokens=end.prompt_tokens,
            remote_prefill_cached_tokens=end.cached_tokens,
        )

    def _meeting(self, order: Order) -> Meeting | None:
        """Where the legs meet, if they do: at this engine's own bootstrap server, or at that of a living one."""
        at = order.meets_at
        if at is None:
            return None
        address = (at.host, at.port)
        if self.bootstrap is not None and address != self.bootstrap:
            raise HandOffError(f"the bootstrap server of {self.endpoint.id} is {self.bootstrap}, not {address}")
        if not self._serves(address):
            raise HolderGoneError(f"no bootstrap server answers at {at.host}:{at.port}")
        return self._rooms.enter(address, at.room, order.kind, order.prompt)

    def _claim(self, order: Order) -> Pull:
        params = order.hand_off
        if params is None or params.remote_engine_id is None or params.remote_request_id is None:
            raise HandOffError("kv_transfer_params name no engine or no request to pull from")
        holder = self._find(params.remote_engine_id)
        if holder is None:
            raise HolderGoneError(f"engine {params.remote_engine_id} does not answer")
        hold = holder.driver.claim(params.remote_request_id)
        if hold is None:
            raise HandOffError(f"{params.remote_request_id} holds nothing (any more): used twice, or its lease ran out")
        if params.remote_num_tokens != order.prompt_tokens or not _same_prompt(hold.content, order.prompt):
            holder.driver.release(hold.id, self.clock.now())
            raise HandOffError(
                f"{params.remote_request_id} holds the KV of another prompt ({params.remote_num_tokens} tokens, this "
                f"request has {order.prompt_tokens}): a real engine dies of this"
            )
        return Pull(holder.driver, hold.id, self._block_bytes)

    def _leg_finished(self, leg: RunningLeg, end: Finished) -> None:
        self.metrics.leg_finished(end, leg.reason)
        if leg.meeting is not None and leg.kind is Leg.PREFILL:
            leg.meeting.computed(end.finished_s)
        self.stamps.add(
            Stamp(
                request_id=leg.request_id,
                endpoint=self.endpoint.id,
                leg=leg.kind,
                arrived_s=end.arrived_s,
                started_s=end.started_s,
                first_token_s=end.first_token_s,
                finished_s=end.finished_s,
                prompt_tokens=end.prompt_tokens,
                cached_tokens=end.cached_tokens,
                loaded_tokens={tier.value: tokens for tier, tokens in end.loaded_tokens.items()},
                pulled_tokens=end.pulled_tokens,
                output_tokens=end.output_tokens,
            )
        )


def _same_prompt(content: Content, prompt: bytes) -> bool:
    return isinstance(content, Text) and content.prompt == prompt
