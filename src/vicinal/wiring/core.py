"""A configuration as a scheduler. Live gateway, replay of a capture and benchmarks all get theirs here."""

import numpy as np

from vicinal.cluster.freshness import FreshnessRule
from vicinal.cluster.state import ClusterState
from vicinal.config.cluster import endpoints, tenants, tree_network
from vicinal.config.fleet import Config
from vicinal.config.flow import Flow
from vicinal.cost.model import CostModel
from vicinal.enginemodel.profiles import profile
from vicinal.flow.breakers import BreakerRule
from vicinal.flow.lanes import LaneRule
from vicinal.flow.made import FlowSettings
from vicinal.flow.pressure.pressure import PressureRule
from vicinal.flow.retries import RetryRule
from vicinal.policies.registry import policy
from vicinal.scheduler.overload import OverloadSettings
from vicinal.scheduler.scheduler import Scheduler
from vicinal.scheduler.settings import SchedulerSettings
from vicinal.topology.tree import tree_topology


def check(config: Config) -> None:
    """Raise UnknownWordError or UnknownProfileError, which list the nearest known names, before anything starts."""
    policy(config.scheduler.policy)
    for endpoint in endpoints(config):
        profile(endpoint.profile)


def make_scheduler(config: Config, heartbeat_s: float, *, explain: bool = True) -> Scheduler:
    """A scheduler that knows no fleet yet: its first event is `TopologyChanged`.

    `heartbeat_s` is the interval of reports on the clock that the scheduler will be given. Without `explain` decisions
    are the same, and their records name the chosen row only.
    """
    settings = config.scheduler
    network = tree_network(config)
    state = ClusterState(
        config.model.block_tokens,
        lambda fleet: tree_topology(fleet, network),
        FreshnessRule(heartbeat_s=heartbeat_s),
        settings.inferred_ttl_s,
        settings.index_blocks_max,
    )
    return Scheduler(
        state,
        CostModel(profile),
        policy(settings.policy),
        np.random.default_rng(settings.seed),
        SchedulerSettings(
            attempts_max=settings.attempts_max,
            hold_s_max=settings.hold_s_max,
            held_max=settings.queue_max,
            early_rejection=config.flow.early_rejection,
            explain=explain,
            flow=_flow(config.flow),
            tenants=tenants(config),
            overload=_overload(config.flow),
        ),
    )


def _overload(flow: Flow) -> OverloadSettings:
    return OverloadSettings(
        limit=flow.limit,
        sheds=flow.pressure_sheds,
        pressure=PressureRule(dwell_s=flow.pressure_dwell_s, soft_s=flow.pressure_soft_s, hard_s=flow.pressure_hard_s),
        retries=RetryRule(share=flow.retry_share, least=flow.retry_least),
        circuits=BreakerRule(
            flow.circuit_failures, flow.circuit_window_s, flow.circuit_open_s, flow.circuit_open_s_max
        ),
    )


def _flow(flow: Flow) -> FlowSettings:
    return FlowSettings(
        fairness=flow.fairness,
        ordering=flow.ordering,
        deficit_tokens=flow.deficit_tokens,
        aging_rate=flow.aging_rate,
        aged_share=flow.aged_share,
        aged_after=flow.aged_after,
        lanes=LaneRule(flow.long_prefill_s, flow.long_factor, flow.long_share),
    )
