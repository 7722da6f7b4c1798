"""Who may not serve a request, and why. Masks over slots; a reason per endpoint is made only when it is asked for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.cost.model import Masks, blocks_needed
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.domain.request import Request
from vicinal.domain.verdict import Rule, Verdict

Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Filtered:
    """`rules` maps each rule to the slots that it leaves out; `masks` is what follows for each role in a plan."""

    masks: Masks
    rules: dict[Rule, Mask]
    request: Request
    view: View

    @property
    def can_serve(self) -> bool:
        masks = self.masks
        pair = not (masks.prefill_blocked.all() or masks.decode_blocked.all())
        return bool(pair or not masks.local_blocked.all())

    def without_passing(self) -> "Filtered":
        """The same with the rules that waiting cures set aside: for work that cannot be held."""
        lasting = {rule: mask for rule, mask in self.rules.items() if not rule.passing}
        return _collected(self.request, self.view, lasting, self.masks.local_blocked)

    def verdicts(self) -> tuple[Verdict, ...]:
        """One per endpoint that is left out, with the most permanent rule against it."""
        found: dict[int, Verdict] = {}
        for rule, mask in self.rules.items():
            for slot in np.flatnonzero(mask).tolist():
                if slot not in found and self.view.fleet.active[slot]:
                    endpoint = self.view.fleet.endpoints[slot]
                    reason, cure = _words(rule, endpoint, slot, self.request, self.view)
                    found[slot] = Verdict(endpoint.id, rule, reason, cure)
        return tuple(found[slot] for slot in sorted(found))


def filtered(request: Request, view: View, tried: set[EndpointId], local_allowed: bool) -> Filtered:
    """`local_allowed` says whether a decode endpoint may prefill for itself when a prefill pool exists."""
    fleet = view.fleet
    slots = len(fleet)
    tokens = request.prompt_tokens + request.expected_output_tokens
    need = np.ceil(tokens / fleet.block_tokens)
    rules = {
        Rule.MODEL: ~fleet.of_model(request.model),
        Rule.TOO_LONG: (request.prompt_tokens >= fleet.model_tokens_max)
        | (tokens > fleet.kv_blocks * fleet.block_tokens),
        Rule.UNHEALTHY: ~view.usable,
        Rule.TRIED: _tried(view, tried, slots),
        Rule.HEADROOM: need > view.free_blocks,
        Rule.SEQUENCES: fleet.decodes & (view.decode_sequences >= fleet.sequences_max),
    }
    no_local = np.zeros(slots, dtype=bool) if local_allowed or not request.splittable else ~fleet.prefills
    return _collected(request, view, rules, no_local)


def _collected(request: Request, view: View, rules: dict[Rule, Mask], no_local: Mask) -> Filtered:
    fleet = view.fleet
    out = np.zeros(len(fleet), dtype=bool)
    for mask in rules.values():
        out |= mask
    whole_only = np.full(len(fleet), not request.splittable)
    masks = Masks(
        prefill_blocked=out | ~fleet.prefills | whole_only,
        decode_blocked=out | ~fleet.decodes,
        local_blocked=out | ~fleet.decodes | no_local,
    )
    return Filtered(masks, rules, request, view)


def _tried(view: View, tried: set[EndpointId], slots: int) -> Mask:
    mask = np.zeros(slots, dtype=bool)
    mask[[view.fleet.slots[endpoint] for endpoint in tried if endpoint in view.fleet.slots]] = True
    return mask


def _words(rule: Rule, endpoint: Endpoint, slot: int, request: Request, view: View) -> tuple[str, str]:
    tokens = request.prompt_tokens + request.expected_output_tokens
    match rule:
        case Rule.MODEL:
            return f"serves {endpoint.model}, not {request.model}", "an endpoint with that model"
        case Rule.TOO_LONG:
            return f"{tokens} tokens do not fit its {endpoint.model_tokens_max}", "a shorter prompt"
        case Rule.UNHEALTHY:
            age_s = view.report_age_s[slot]
            if np.isinf(age_s):
                return "has never reported", "its first report"
            return f"does not answer; last report {age_s:.1f} s old", "a new report"
        case Rule.TRIED:
            return "failed this request already", "another endpoint"
        case Rule.HEADROOM:
            free = max(0.0, float(view.free_blocks[slot]))
            need = blocks_needed(request, endpoint.block_tokens)
            return f"{need} blocks needed, {free:.0f} free", "a request that ends there"
        case Rule.SEQUENCES:
            return f"runs {view.decode_sequences[slot]:.0f} of {endpoint.sequences_max} sequences", "one that ends"
