"""A request of a tenant with quotas, from its arrival to its end: what was charged for it, and what it really uses."""

from vicinal.domain.plan import Leg, Plan
from vicinal.domain.request import Request
from vicinal.flow.quotas.account import Account
from vicinal.flow.quotas.usage import Held, Usage


class Live:
    """`charged` is what its account was charged so far."""

    __slots__ = (
        "_blocks",
        "_bytes_per_token",
        "_copied",
        "_hbm",
        "_host",
        "_reads",
        "_sent",
        "_ssd",
        "account",
        "charged",
        "request",
    )

    def __init__(self, request: Request, account: Account, kv_bytes_per_token: float, now: float) -> None:
        self.request = request
        self.account = account
        self._bytes_per_token = kv_bytes_per_token
        self._blocks = max(1, -(-(request.prompt_tokens + request.expected_output_tokens) // request.block_tokens))
        self._hbm, self._host, self._ssd = Held(now), Held(now), Held(now)
        self._reads = 0
        self._copied = 0.0
        self._sent = False
        self.charged = self._predicted()

    def _predicted(self) -> Usage:
        request = self.request
        if request.copy_to is not None:
            copied = request.prompt_tokens * self._bytes_per_token
            return Usage(copy_bytes=copied, gateway_cpu_s=request.gateway_cpu_s)
        hbm_s, host_s, ssd_s = self.account.held_s
        return Usage(
            requests=1.0,
            tokens=float(request.prompt_tokens + request.expected_output_tokens),
            hbm_block_s=self._blocks * hbm_s,
            host_block_s=self._blocks * host_s,
            ssd_block_s=self._blocks * ssd_s,
            remote_reads=float(request.splittable),
            gateway_cpu_s=request.gateway_cpu_s,
        )

    def dispatched(self, leg: Leg, plan: Plan, now: float) -> None:
        """A leg leaves. What a plan says is known better than what was predicted without one."""
        self._sent = True
        copies = self.request.copy_to is not None
        moved = plan.moved_tokens * self._bytes_per_token if copies else 0.0
        if leg is Leg.DECODE:
            self._reads += not copies and plan.moved_tokens > 0
            self._copied += moved
            reads, copied = self._reads, self._copied
        else:
            block = self.request.block_tokens
            self._host.hold(plan.from_host_tokens / block, now)
            self._ssd.hold(plan.from_ssd_tokens / block, now)
            reads, copied = self._reads + (not copies and not plan.local), self._copied + moved
        self._becomes("remote_reads", float(reads), now)
        self._becomes("copy_bytes", copied, now)

    def hold(self, hbm_blocks: int, now: float) -> None:
        self._hbm.hold(hbm_blocks, now)

    def loaded(self, now: float) -> None:
        """What the plan had below HBM is in HBM now."""
        self._host.hold(0, now)
        self._ssd.hold(0, now)

    def end(self, output_tokens: int | None, now: float) -> None:
        """Correct everything that was predicted. What no engine had, used no tokens."""
        request = self.request
        self._becomes("remote_reads", float(self._reads), now)
        self._becomes("copy_bytes", self._copied, now)
        if request.copy_to is not None:
            return
        answer = request.expected_output_tokens if output_tokens is None else output_tokens
        self._becomes("tokens", float(request.prompt_tokens + answer) if self._sent else 0.0, now)
        self._becomes("hbm_block_s", self._hbm.block_s(now), now)
        self._becomes("host_block_s", self._host.block_s(now), now)
        self._becomes("ssd_block_s", self._ssd.block_s(now), now)
        if self._sent:
            self.account.learn(self._blocks, self.charged)

    def _becomes(self, name: str, amount: float, now: float) -> None:
        """What was charged as something else is this."""
        charged = self.charged
        if more := amount - getattr(charged, name):
            setattr(charged, name, amount)
            self.account.charge_more(name, more, now)
