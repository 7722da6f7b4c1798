"""A small emulated fleet on real sockets: P in rack A, D1 beside it, D2 in rack B."""

import io
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import vicinal
from tests.ports import free_port
from vicinal.domain.endpoint import Endpoint, Placement, Role
from vicinal.domain.ids import EndpointId, ModelId
from vicinal.emulator.host import EmulatedFleet
from vicinal.tokenizer.tokenizer import Tokenizer
from vicinal.topology.tree import TreeNetwork, tree_topology

TINY_MODEL = Path(vicinal.__file__).parent / "data" / "tiny-model"
PROFILE = "llama-3.1-70b-h100-tp8-vllm"
SPEED = 50.0
NETWORK = TreeNetwork(leaf_oversubscription=8.0)


def make_endpoint(name: str, leaf: str, role: Role, kv_blocks: int = 2000) -> Endpoint:
    http, events, replay = (free_port() for _ in range(3))
    return Endpoint(
        id=EndpointId(name),
        url=f"http://127.0.0.1:{http}",
        role=role,
        model=ModelId("tiny"),
        profile=PROFILE,
        kv_blocks=kv_blocks,
        block_tokens=16,
        kv_bytes_per_token=327_680,
        model_tokens_max=8192,
        nic_bytes_per_s=25e9,
        placement=Placement(host=f"host-{name}", leaf=leaf, pod="pod"),
        events_url=f"tcp://127.0.0.1:{events}",
        replay_url=f"tcp://127.0.0.1:{replay}",
    )


class Rig:
    """A running fleet and a client for it."""

    def __init__(self, fleet: EmulatedFleet, endpoints: dict[str, Endpoint], http: aiohttp.ClientSession) -> None:
        self.fleet = fleet
        self.endpoints = endpoints
        self.http = http

    def url(self, name: str, path: str) -> str:
        return self.endpoints[name].url + path

    async def post(self, name: str, path: str, body: Any, request_id: str = "r") -> tuple[int, Any]:
        """Status and decoded answer."""
        kind = {"data": io.BytesIO(body)} if isinstance(body, bytes) else {"json": body}
        async with self.http.post(self.url(name, path), headers={"X-Request-Id": request_id}, **kind) as answer:
            return answer.status, await answer.json()

    async def complete(self, name: str, prompt: Any, max_tokens: int = 4, request_id: str = "r", **more: Any) -> Any:
        body = {"model": "tiny", "prompt": prompt, "max_tokens": max_tokens} | more
        status, answer = await self.post(name, "/v1/completions", body, request_id)
        assert status == 200, answer
        return answer

    async def prefill(self, name: str, prompt: Any, request_id: str = "r") -> Any:
        """The kv_transfer_params that a prefill leg returns."""
        answer = await self.complete(name, prompt, 1, request_id, kv_transfer_params=ASK)
        return answer["kv_transfer_params"]

    async def stamps(self, name: str) -> list[dict[str, Any]]:
        async with self.http.get(self.url(name, "/emulator/stamps")) as answer:
            return list(await answer.json())

    async def summary(self) -> dict[str, Any]:
        async with self.http.get(self.url(next(iter(self.endpoints)), "/emulator/summary")) as answer:
            return dict(await answer.json())


ASK = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
"""What a prefill leg is sent with."""

MakeRig = Callable[..., Any]


@pytest.fixture(scope="session")
def codec() -> Tokenizer:
    return Tokenizer.load(TINY_MODEL)


@pytest.fixture
async def make_rig(codec: Tokenizer) -> AsyncIterator[MakeRig]:
    """Starts fleets; checks at the end that nothing was leaked."""
    async with AsyncExitStack() as stack:

        async def start(**changes: Any) -> Rig:
            settings = {"speed": changes.pop("speed", SPEED), "lease_s": changes.pop("lease_s", 30.0)}
            names = (("p", "A", Role.PREFILL), ("d1", "A", Role.DECODE), ("d2", "B", Role.DECODE))
            endpoints = [replace(make_endpoint(*each), **changes) for each in names]
            fleet = EmulatedFleet(endpoints, tree_topology(endpoints, NETWORK), codec=codec, **settings)
            await fleet.start()
            stack.push_async_callback(fleet.stop)
            http = await stack.enter_async_context(aiohttp.ClientSession())
            return Rig(fleet, {str(e.id): e for e in endpoints}, http)

        yield start


@pytest.fixture
async def rig(make_rig: MakeRig) -> Any:
    return await make_rig()
