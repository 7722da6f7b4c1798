"""The decision table once more, in plain Python, one pair at a time, from the formulas of the design.

    ttft   = max(wait + fetch + compute + transfer, ready) + first step;  local: wait + fetch + compute
    cost   = w_ttft [ttft + kappa max(0, ttft - objective)] + w_tpot n_out [tpot + kappa max(0, tpot - objective)]
           + externality: compute x the price of prefill, what the batch and the flows of the path are slowed by
           + pressure on those who serve

It shares no code with vicinal.cost: it reads a `World`, whose figures it takes one by one.
"""

from tests.cost.worlds import NOW, World
from vicinal.enginemodel.fit import Fit
from vicinal.enginemodel.profiles import PROFILES
from vicinal.topology.graph import Level

Terms = dict[str, float]


def pair(world: World, source: int, target: int, prefill_done: bool = False) -> Terms:
    """The terms of prefill on slot `source` and decode on another, `target`, and their "total"."""
    request, view = world.request, world.view
    flows, rates = view.link_flows, world.topology.bytes_per_s
    wait_s = compute_s = fetch_s = 0.0
    if not prefill_done:
        fetch_s = _fetch_s(world, source)
        wait_s = float(view.wait_prefill_s[source])
        compute_s = _compute_s(world, source)
    path = world.topology.path(source, target)
    moved_bytes = (request.prompt_tokens - _reused_tokens(world, target)) * world.endpoints[target].kv_bytes_per_token
    slowest = added = 0.0
    for link in path.links:
        slowest = max(slowest, (1 + float(flows[link])) / float(rates[link]))
        added = max(added, float(flows[link]) / float(rates[link]))
    transfer_s = path.latency_s + moved_bytes * slowest * _factor(world, path.level)
    tpot_s = _tpot_s(world, target)
    ready_s = _ready_s(world, target, tpot_s)
    first_step_s = tpot_s + _under_way_s(world, target) / 2
    ttft_s = max(wait_s + fetch_s + compute_s + transfer_s, ready_s) + first_step_s
    pressure_s = _pressure_s(world, target) + (0.0 if prefill_done else _pressure_s(world, source))
    return _totalled(
        _but_zero(fetch_kv=fetch_s, pressure=pressure_s)
        | {
            "wait_prefill": wait_s,
            "compute_prefill": compute_s,
            "transfer_kv": transfer_s,
            "decode_ready": ready_s,
            "first_step": first_step_s,
            "ttft": ttft_s,
            "tpot": tpot_s,
            "ttft_cost": _ttft_cost_s(world, ttft_s),
            "tpot_cost": _tpot_cost_s(world, tpot_s),
            "prefill_price": (_price(world) + float(view.decode_sequences[source])) * compute_s,
            "decode_price": _decode_price_s(world, target),
            "link_price": moved_bytes * added,
        }
    )


def local(world: World, slot: int) -> Terms:
    """The terms of both phases on `slot`: nothing moves, and every sequence there waits while it prefills."""
    wait_s, compute_s = float(world.view.wait_prefill_s[slot]), _compute_s(world, slot)
    fetch_s = _fetch_s(world, slot)
    ttft_s = wait_s + fetch_s + compute_s
    tpot_s = _tpot_s(world, slot)
    per_s = float(world.view.decode_sequences[slot])
    if world.endpoints[slot].role.prefills:
        per_s += _price(world)
    return _totalled(
        _but_zero(fetch_kv=fetch_s, pressure=_pressure_s(world, slot))
        | {
            "wait_prefill": wait_s,
            "compute_prefill": compute_s,
            "ttft": ttft_s,
            "tpot": tpot_s,
            "ttft_cost": _ttft_cost_s(world, ttft_s),
            "tpot_cost": _tpot_cost_s(world, tpot_s),
            "prefill_price": per_s * compute_s,
            "decode_price": _decode_price_s(world, slot),
        }
    )


def rows(world: World) -> dict[tuple[int, int], Terms]:
    """Every row that may be taken, by (prefill slot, decode slot); a local one has the same slot twice."""
    masks, found = world.masks, {}
    for target, there in enumerate(world.endpoints):
        if not there.role.decodes:
            continue
        if not masks.local_blocked[target]:
            found[target, target] = local(world, target)
        if masks.decode_blocked[target]:
            continue
        for source, here in enumerate(world.endpoints):
            if here.role.prefills and source != target and not masks.prefill_blocked[source]:
                found[source, target] = pair(world, source, target)
    return found


def objective_s(world: World) -> float:
    service, n = world.request.service, world.request.prompt_tokens
    unloaded_s = [_prefill_s(_fit(world, slot), n, 0) for slot, e in enumerate(world.endpoints) if e.role.prefills]
    return max(service.ttft_floor_s, service.ttft_factor * min(unloaded_s, default=0.0))


def _totalled(terms: Terms) -> Terms:
    parts = ("ttft_cost", "tpot_cost", "prefill_price", "decode_price", "link_price", "pressure")
    return terms | {"total": sum(terms.get(name, 0.0) for name in parts)}


def _but_zero(**terms: float) -> Terms:
    return {name: seconds for name, seconds in terms.items() if seconds}


def _pressure_s(world: World, slot: int) -> float:
    return 0.0 if world.view.pressure_s is None else float(world.view.pressure_s[slot])


def _fit(world: World, slot: int) -> Fit:
    return PROFILES[world.endpoints[slot].profile]


def _prefill_s(fit: Fit, n: int, cached: int) -> float:
    a, b, c = fit.prefill_base_s, fit.prefill_s_per_token, fit.prefill_s_per_pair
    return a + b * (n - cached) + c * (n - cached) * (n + cached) / 2


def _reused_tokens(world: World, slot: int) -> int:
    """Of what is in HBM."""
    return _whole_tokens(world, int(world.cached[slot]))


def _fetch_s(world: World, slot: int) -> float:
    """Each tier's bytes at its own rate, and those of the SSD through host memory as well."""
    _, host_tokens, ssd_tokens = tier_tokens(world, slot)
    here = world.endpoints[slot]
    up_bytes = (host_tokens + ssd_tokens) * here.kv_bytes_per_token
    return up_bytes / here.host_bytes_per_s + ssd_tokens * here.kv_bytes_per_token / here.ssd_bytes_per_s


def tier_tokens(world: World, slot: int) -> tuple[int, int, int]:
    """Reusable tokens in HBM, in host memory and on SSD, each where it is nearest."""
    reached = (world.cached, *(world.reached or (world.cached, world.cached)))
    hbm, host, ssd = (_whole_tokens(world, int(blocks[slot])) for blocks in reached)
    return hbm, host - hbm, ssd - host


def _whole_tokens(world: World, blocks: int) -> int:
    """Whole cached blocks, and never the prompt's last token."""
    while blocks * world.request.block_tokens >= world.request.prompt_tokens:
        blocks -= 1
    return blocks * world.request.block_tokens


def _compute_s(world: World, slot: int) -> float:
    """What no tier of the endpoint has is computed."""
    return _prefill_s(_fit(world, slot), world.request.prompt_tokens, sum(tier_tokens(world, slot)))


def _price(world: World) -> float:
    """The price of prefill, posted for the mean wait over all endpoints that prefill and answer."""
    view = world.view
    answering = [slot for slot, e in enumerate(world.endpoints) if e.role.prefills and view.usable[slot]]
    waits = [float(view.wait_prefill_s[slot]) for slot in answering]
    return world.model.price.posted(sum(waits) / len(waits) if waits else 0.0, NOW)


def _under_way_s(world: World, slot: int) -> float:
    """The step that the batch there is in: a newcomer joins when it ends."""
    fit, view = _fit(world, slot), world.view
    sequences, context = float(view.decode_sequences[slot]), float(view.decode_context_tokens[slot])
    if not sequences:
        return 0.0
    return fit.step_base_s + fit.step_s_per_sequence * sequences + fit.step_s_per_context_token * context


def _own_context(world: World) -> float:
    """The context of this request, on average over its answer."""
    return world.request.prompt_tokens + world.request.expected_output_tokens / 2


def _tpot_s(world: World, slot: int) -> float:
    fit, view = _fit(world, slot), world.view
    context = float(view.decode_context_tokens[slot]) + _own_context(world)
    sequences = float(view.decode_sequences[slot]) + 1
    return fit.step_base_s + fit.step_s_per_sequence * sequences + fit.step_s_per_context_token * context


def _decode_price_s(world: World, slot: int) -> float:
    """Each sequence there runs slower by what this one adds to a step, for as many steps as it stays."""
    fit = _fit(world, slot)
    slower_s = fit.step_s_per_sequence + fit.step_s_per_context_token * _own_context(world)
    return world.request.expected_output_tokens * float(world.view.decode_sequences[slot]) * slower_s


def _ready_s(world: World, slot: int, tpot_s: float) -> float:
    tokens, block = (
        world.request.prompt_tokens + world.request.expected_output_tokens,
        world.endpoints[slot].block_tokens,
    )
    need, free, in_use = -(-tokens // block), float(world.view.free_blocks[slot]), float(world.view.blocks_in_use[slot])
    if need <= free or in_use == 0:
        return 0.0
    return min((need - free) / max(in_use, 1.0), 1.0) * world.request.expected_output_tokens * tpot_s


def _ttft_cost_s(world: World, ttft_s: float) -> float:
    service = world.request.service
    return service.ttft_weight * (ttft_s + service.miss_factor * max(0.0, ttft_s - objective_s(world)))


def _tpot_cost_s(world: World, tpot_s: float) -> float:
    service, n_out = world.request.service, world.request.expected_output_tokens
    return service.tpot_weight * n_out * (tpot_s + service.miss_factor * max(0.0, tpot_s - service.tpot_objective_s))


def _factor(world: World, level: Level) -> float:
    return float(world.model.speeds.factors(NOW)[level])
