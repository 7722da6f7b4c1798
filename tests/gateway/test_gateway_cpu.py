"""What reading a request takes is measured, told to the core, and not spent again for a tenant that has none left."""

import msgspec
import pytest

from vicinal.cluster.output_lengths import OutputLengths
from vicinal.domain.effects import Answer
from vicinal.domain.events import RequestArrived
from vicinal.domain.ids import RequestId, TenantId
from vicinal.domain.outcome import Ending, Outcome
from vicinal.flow.quotas.rules import Quota
from vicinal.gateway.access import TrustedHeaders
from vicinal.gateway.caller import ANYBODY
from vicinal.gateway.closed import TENANTS_MAX, ClosedTenants
from vicinal.gateway.counters import GatewayCounters
from vicinal.gateway.parse import RequestParser
from vicinal.gateway.prompt_reader import ServedModel
from vicinal.gateway.prompts import pack

A, B = TenantId("a"), TenantId("b")


def exceeded(retry_s: float | None = 5.0, quota: Quota = Quota.GATEWAY_CPU_S) -> Outcome:
    return Outcome(Ending.QUOTA_EXCEEDED, "used up", retry_s, quota)


class Spending:
    """A processor's clock that parts of the work set forward."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s

    def packed(self, text: str, *, add_special_tokens: bool = True) -> bytes:
        self.now_s += 0.25
        return pack([ord(c) for c in text])

    def render_chat(self, messages, tools=None, add_generation_prompt=True, arguments=None) -> str:
        self.now_s += 0.5
        return "text"


@pytest.mark.mission("B6")
def test_what_parsing_takes_is_in_the_request() -> None:
    clock = Spending()
    parser = RequestParser([ServedModel("m", 4, 99, clock)], OutputLengths(), GatewayCounters(), cpu_s=clock)
    chat = msgspec.json.encode({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    text, ids = (msgspec.json.encode({"model": "m", "prompt": prompt}) for prompt in ("hello", [1, 2, 3]))
    assert parser.chat(RequestId("r"), chat, ANYBODY).request.gateway_cpu_s == 0.75
    assert parser.completion(RequestId("r"), text, ANYBODY).request.gateway_cpu_s == 0.25
    assert parser.completion(RequestId("r"), ids, ANYBODY).request.gateway_cpu_s == 0.0


def test_a_closed_tenant_is_told_the_rest_of_its_time() -> None:
    now = [10.0]
    closed = ClosedTenants(lambda: now[0])
    assert closed.refusal(A) is None
    closed.heard(A, exceeded(5.0))
    assert closed.refusal(B) is None
    now[0] = 13.0
    assert closed.refusal(A) == exceeded(2.0)
    closed.heard(A, exceeded(4.0))
    now[0] = 16.0
    assert closed.refusal(A) == exceeded(1.0)
    now[0] = 17.0
    assert closed.refusal(A) is None
    assert len(closed) == 0


def test_other_answers_close_nobody_and_memory_is_bounded() -> None:
    closed = ClosedTenants(lambda: 0.0)
    closed.heard(A, Outcome(Ending.QUEUE_FULL, "", 5.0))
    closed.heard(A, exceeded(5.0, Quota.REQUESTS))
    closed.heard(A, exceeded(None))
    assert len(closed) == 0
    for n in range(TENANTS_MAX + 5):
        closed.heard(TenantId(f"t{n}"), exceeded())
    assert len(closed) == TENANTS_MAX
    assert closed.refusal(TenantId("t4")) is None
    assert closed.refusal(TenantId("t5")) is not None


@pytest.mark.mission("B6")
@pytest.mark.parametrize("size", [3, 200_000])
async def test_a_tenant_without_time_is_refused_unread(world, kit, size) -> None:
    """Its second request reaches neither the parser nor the core; another tenant's does."""
    world.scheduler.on(RequestArrived, lambda e: [Answer(e.request.id, exceeded(30.0))])
    await world.start(trusted=TrustedHeaders("x-tenant", peers=("127.0.0.1",)))
    client = await world.client()
    client.post({"model": "m", "prompt": [1, 2]}, headers="X-Tenant: a\r\n")
    first = await client.response()
    assert world.scheduler.of(RequestArrived)[0].request.gateway_cpu_s > 0
    not_even_json = b'{"model": "m", "prompt": [' + b"1," * size
    client.post(not_even_json, headers="X-Tenant: a\r\nX-Request-Id: mine\r\n")
    second = await client.response()
    client.post({"model": "m", "prompt": [1, 2]}, headers="X-Tenant: b\r\n")
    await client.response()
    assert [first.status, second.status] == [429, 429]
    assert second.error == first.error
    assert second.headers["x-vicinal-reason"] == "quota_exceeded:gateway_cpu_s_per_s"
    assert 1 <= int(second.headers["retry-after"]) <= 30
    assert second.headers["x-request-id"] == "mine"
    assert [event.request.tenant for event in world.scheduler.of(RequestArrived)] == ["a", "b"]
    assert world.gateway.counters.refused_unread == 1
