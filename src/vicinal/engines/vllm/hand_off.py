"""vLLM's two ways to hand KV over: NIXL, which the decode side pulls, and the Mooncake connector.

NIXL: the prefill leg asks with `kv_transfer_params`, and its answer has params that name the blocks. The decode leg is
the client's body with *these params verbatim*: they belong to exactly this prompt, and to one use.

Mooncake: both legs leave together with one `transfer_id`. The decode leg names the prefill engine by the id that its
bootstrap server tells, and that server's address; the prefill leg's answer has nothing to add.
"""

import msgspec

from vicinal.domain.endpoint import HandOff
from vicinal.engines.answers import Usage, usage_of
from vicinal.engines.handover import Answer, Rendezvous, Told, Way, usage_told

HANDOFF_KEY = "kv_transfer_params"

_ASK_TO_HOLD = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,'
    b'"remote_block_ids":null,"remote_host":null,"remote_port":null}'
)
_NO_PARAMS = (b"", b"null", b"{}")


class _CachedInParams(msgspec.Struct):
    remote_prefill_cached_tokens: int | None = None


_cached_in_params = msgspec.json.Decoder(_CachedInParams)


def _params_told(answer: Answer) -> Told:
    """Reuse is `usage.prompt_tokens_details.cached_tokens`, or, from engines that do not give details, what the
    hand-off params say of it."""
    params = bytes(answer.kv_transfer_params)
    usage = usage_of(answer.usage)
    if params in _NO_PARAMS:
        return Told(None, usage)
    if usage.cached_tokens is None:
        cached = _cached_in_params.decode(params).remote_prefill_cached_tokens
        usage = Usage(usage.prompt_tokens, usage.completion_tokens, cached)
    return Told({HANDOFF_KEY: params}, usage)


def _push(at: Rendezvous) -> dict[str, bytes]:
    asked = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": _transfer_id(at)}
    return {HANDOFF_KEY: msgspec.json.encode(asked)}


def _receive(at: Rendezvous) -> dict[str, bytes]:
    params = {
        "do_remote_decode": False,
        "do_remote_prefill": True,
        "remote_engine_id": at.engine_id,
        "remote_bootstrap_addr": f"http://{at.host}:{at.port}",
        "transfer_id": _transfer_id(at),
    }
    return {HANDOFF_KEY: msgspec.json.encode(params)}


def _transfer_id(at: Rendezvous) -> str:
    return f"xfer-{at.number:016x}"


NIXL = Way(
    kind=HandOff.NIXL,
    prefill=lambda _: {HANDOFF_KEY: _ASK_TO_HOLD},
    decode=None,
    read=_params_told,
    one_token=True,
    ends_at_eos=True,
)
MOONCAKE = Way(
    kind=HandOff.MOONCAKE,
    prefill=_push,
    decode=_receive,
    read=usage_told,
    one_token=True,
    ends_at_eos=True,
    asks_engine_id=True,
)


class _Engine(msgspec.Struct):
    engine_id: str


_engines = msgspec.json.Decoder(dict[str, _Engine])


def read_engine_id(body: bytes, rank: int | None) -> str:
    """The id of a prefill engine from what its bootstrap server answers to GET /query, per data-parallel rank:
    `{"0": {"engine_id": …, …}, …}`. Raises ValueError when it is not there."""
    try:
        return _engines.decode(body)[str(rank or 0)].engine_id
    except (msgspec.DecodeError, RecursionError, KeyError):
        raise ValueError(f"the bootstrap server names no engine of rank {rank or 0}") from None
