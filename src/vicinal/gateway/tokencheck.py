"""Asks every engine how it tokenises, at start and whenever its counts contradict ours, and acts on the answer.

A kind of prompt that any engine tokenises differently is matched by text from then on (matching.py), and by tokens
again when all agree. An engine that cannot be asked proves nothing: that is said once, and kinds stay as they are.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any

import aiohttp

from vicinal.domain.capabilities import CAPABILITIES, Capabilities
from vicinal.domain.effects import Warn
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.gateway.ask_tokens import CannotBeAskedError, SilentError, ask
from vicinal.gateway.matching import Matching
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.prompts import Tokenizer
from vicinal.tokenizer.errors import ChatError
from vicinal.tokenizer.kinds import PromptKind
from vicinal.tokenizer.probes import PROBES, Probe, difference

log = logging.getLogger(__name__)

_NOBODY = EndpointId("")
AT_A_TIME = 8
"""Engines that are asked together: it is nobody's hurry, and tokenising costs the gateway's core too."""


class Agreement(StrEnum):
    """How an engine's tokens of one kind of prompt relate to ours."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNKNOWN = "unknown"


class TokenCheck:
    """For one model that has a tokenizer. `warn` gets one warning per endpoint and finding, again when it comes back.

    After an engine did not answer, all are asked again after `retry_s`; drift has them asked at most once in `again_s`.
    `counts` has rounds, engines asked, and kinds found equal, different or unknown.
    """

    def __init__(
        self,
        model: ServedModel,
        matching: Matching,
        session: aiohttp.ClientSession,
        warn: Callable[[Warn], None],
        *,
        timeout_s: float = 10.0,
        retry_s: float = 10.0,
        again_s: float = 60.0,
    ) -> None:
        assert model.tokenizer is not None
        self.counts: Counter[str] = Counter()
        self._tokenizer: Tokenizer = model.tokenizer
        self._model = model
        self._matching = matching
        self._session = session
        self._warn = warn
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._retry_s = retry_s
        self._again_s = again_s
        self._endpoints: tuple[Endpoint, ...] = ()
        self._found: dict[EndpointId, dict[PromptKind, Agreement]] = {}
        self._told: dict[tuple[EndpointId, str], str] = {}
        self._wanted = asyncio.Event()
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, endpoints: Iterable[Endpoint]) -> None:
        """Begin; returns at once. Until an engine has answered, it is trusted."""
        self.replace(endpoints)
        self._task = asyncio.create_task(self._run(), name="token-check")
        self._task.add_done_callback(_ended)

    async def stop(self) -> None:
        """Abandon what is under way. Does nothing the second time."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def replace(self, endpoints: Iterable[Endpoint]) -> None:
        """The fleet is now exactly these; they are asked soon."""
        self._endpoints = tuple(endpoints)
        present = {endpoint.id for endpoint in self._endpoints}
        self._found = {name: found for name, found in self._found.items() if name in present}
        self._told = {key: words for key, words in self._told.items() if key[0] in present or key[0] == _NOBODY}
        self._changed.set()
        self._wanted.set()

    def drifted(self) -> None:
        """An engine counted other prompt tokens than we did: ask again."""
        self.counts["drifts"] += 1
        self._wanted.set()

    def state(self) -> Mapping[str, Any]:
        """For operators: by what each kind is matched, and what each engine answered."""
        return {
            "matched_by": self._matching.state(self._model.id),
            "engines": {
                endpoint.id: {kind.value: found.value for kind, found in self._found.get(endpoint.id, {}).items()}
                for endpoint in self._endpoints
            },
        }

    async def check(self) -> bool:
        """One round over all engines. False when one did not answer, so that there should be another."""
        self.counts["rounds"] += 1
        gate = asyncio.Semaphore(AT_A_TIME)

        async def one(endpoint: Endpoint) -> bool:
            async with gate:
                return await self._check_engine(endpoint)

        answered = await asyncio.gather(*[one(endpoint) for endpoint in self._endpoints])
        self._conclude()
        return all(answered)

    async def _run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            self._changed.clear()
            drifts = self.counts["drifts"]
            while not await self.check():
                await asyncio.sleep(self._retry_s)
            if drifts:
                self._explain(drifts)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._again_s):
                    await self._changed.wait()

    def _explain(self, drifts: int) -> None:
        """Counts differ, and engines were asked again: a warning, once, if none of them tokenises a probe otherwise."""
        key = (_NOBODY, "drift")
        if any(Agreement.DIFFERENT in found.values() for found in self._found.values()):
            self._told.pop(key, None)
        elif key not in self._told:
            self._told[key] = ""
            words = (
                f"engines counted other prompt tokens than we did in {drifts} answers, though they tokenise all probes "
                "as we do: some prompts are rendered in ways that no probe has; see tokens_differ_* of the self-check"
            )
            self._warn(Warn("token_counts_differ", None, words))

    async def _check_engine(self, endpoint: Endpoint) -> bool:
        """Ask one engine about all probes. False when it does not answer."""
        self.counts["asked"] += 1
        if not CAPABILITIES.get(endpoint.dialect, Capabilities()).tokenize:
            self._cannot(endpoint, f"the {endpoint.dialect} dialect has no such question")
            return True
        found: dict[PromptKind, Agreement] = {}
        differences: dict[PromptKind, str] = {}
        try:
            for probe in PROBES:
                words = await self._compare(endpoint, probe)
                if words:
                    differences.setdefault(probe.kind, words)
                if words is not None:
                    found.setdefault(probe.kind, Agreement.EQUAL)
        except CannotBeAskedError as error:
            self._cannot(endpoint, str(error))
            return True
        except SilentError:
            self._found.setdefault(endpoint.id, dict.fromkeys(PromptKind, Agreement.UNKNOWN))
            return False
        self._told.pop((endpoint.id, ""), None)
        self._found[endpoint.id] = {
            kind: Agreement.DIFFERENT if kind in differences else found.get(kind, Agreement.UNKNOWN)
            for kind in PromptKind
        }
        for kind in PromptKind:
            self._tell(endpoint, kind, differences.get(kind))
        return True

    async def _compare(self, endpoint: Endpoint, probe: Probe) -> str | None:
        """Empty when equal, words about a difference, None when the chat is refused there or on both sides."""
        try:
            ours = probe.ids(self._tokenizer)
        except ChatError as error:
            refused = await self._ask(endpoint, probe) is None
            return None if refused else f"{probe.kind.value} ({probe.name}): rendered there and refused here: {error}"
        theirs = await self._ask(endpoint, probe)
        if theirs is None:
            return None
        differs = difference(probe, ours, theirs)
        return differs.words() if differs else ""

    async def _ask(self, endpoint: Endpoint, probe: Probe) -> list[int] | None:
        return await ask(self._session, endpoint, self._model.id, probe, self._timeout)

    def _cannot(self, endpoint: Endpoint, why: str) -> None:
        self._found[endpoint.id] = dict.fromkeys(PromptKind, Agreement.UNKNOWN)
        if self._told.get((endpoint.id, "")) != why:
            self._told[endpoint.id, ""] = why
            words = f"{endpoint.id} cannot be asked how it tokenises ({why}); its tokens are taken to be ours"
            self._warn(Warn("tokens_unchecked", endpoint.id, f"{words}, unchecked"))

    def _tell(self, endpoint: Endpoint, kind: PromptKind, words: str | None) -> None:
        """Once, until it is over or other words are due."""
        key = (endpoint.id, kind.value)
        if words is None:
            self._told.pop(key, None)
        elif self._told.get(key) != words:
            self._told[key] = words
            until = "Prompts of this kind are matched by their text until it agrees"
            self._warn(Warn("tokens_differ", endpoint.id, f"{endpoint.id} tokenises differently: {words}. {until}"))

    def _conclude(self) -> None:
        """Kinds that somebody tokenises differently are matched by text, the others by tokens."""
        for kind in PromptKind:
            said = [(name, found.get(kind)) for name, found in self._found.items()]
            others = [name for name, agreement in said if agreement is Agreement.DIFFERENT]
            for agreement in Agreement:
                self.counts[f"{kind.value}_{agreement.value}"] = sum(found is agreement for _, found in said)
            if others:
                self._matching.use_text(self._model.id, kind, f"{', '.join(others)} tokenises it differently")
            elif self._matching.use_tokens(self._model.id, kind):
                log.info("all engines tokenise %s prompts as we do again: they are matched by tokens", kind.value)


def _ended(task: "asyncio.Task[None]") -> None:
    with suppress(asyncio.CancelledError):
        if (error := task.exception()) is not None:
            log.error("the check of tokens ended", exc_info=error)
