"""What the gateway would make of an arrival: a request, the names of its blocks, and a guess at its answer's length."""

from collections.abc import Mapping
from enum import StrEnum

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.ids import ModelId, RequestId, TenantId
from vicinal.domain.request import Request, ServiceClass
from vicinal.kvindex.hashing import pack_hashes
from vicinal.workload.arrival import Arrival
from vicinal.workload.content import block_names
from vicinal.workload.prompt import Piece

_OWN_STREAMS = 1 << 63
"""Answers that nobody repeats are named by streams that no workload uses."""


class UnknownServiceError(ValueError):
    """A workload has requests of a kind that the configuration does not have."""


class Foresight(StrEnum):
    """What is known of an answer's length when its request arrives: its true length, or the mean of earlier ones."""

    KNOWN = "known"
    MEAN = "mean"


class RequestMaker:
    """`services` by name, the first of which is the default kind; `model` is asked by arrivals that name none.

    `make` raises UnknownServiceError for a kind that is not among them, as the gateway refuses such a request.
    """

    def __init__(
        self,
        model: ModelId,
        block_tokens: int,
        model_tokens_max: int,
        services: Mapping[str, ServiceClass],
        foresight: Foresight,
    ) -> None:
        self._model = model
        self._block_tokens = block_tokens
        self._model_tokens_max = model_tokens_max
        self._services = services
        self._default = next(iter(services.values()))
        self._known = foresight is Foresight.KNOWN
        self._lengths = OutputLengths()

    def make(self, arrival: Arrival, number: int) -> tuple[Request, list[int]]:
        """The request, and the names of all full blocks of prompt and answer."""
        prompt_tokens, block_tokens = arrival.prompt_tokens, self._block_tokens
        answer = arrival.answer or Piece(_OWN_STREAMS + number, arrival.output_tokens)
        names = block_names((*arrival.prompt.pieces, answer), block_tokens)
        model = ModelId(arrival.model) if arrival.model else self._model
        limit = arrival.output_tokens if self._known else max(1, self._model_tokens_max - prompt_tokens)
        request = Request(
            id=RequestId(f"sim-{number}"),
            model=model,
            tenant=TenantId(arrival.tenant or "default"),
            service=self._service(arrival.service),
            prompt_tokens=prompt_tokens,
            block_tokens=block_tokens,
            block_hashes=pack_hashes(names[: prompt_tokens // block_tokens]),
            max_output_tokens=limit,
            expected_output_tokens=self._lengths.predict(model, limit, ignore_eos=self._known),
            priority=arrival.priority,
            streamed=True,
        )
        return request, names

    def _service(self, name: str | None) -> ServiceClass:
        if name is None:
            return self._default
        try:
            return self._services[name]
        except KeyError:
            raise UnknownServiceError(
                f"the workload has requests of kind {name!r} and the cluster knows {', '.join(self._services)}: add a "
                "[[service]] of that name"
            ) from None

    def answered(self, request: Request, output_tokens: int) -> None:
        """An answer is complete: the next guess knows better."""
        self._lengths.observe(request.model, output_tokens)
