"""Who may not serve a request, and why. Masks over slots; a reason per endpoint is made only when it is asked for."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.cost.model import Masks
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.domain.request import Request
from vicinal.domain.verdict import FULL, Rule, Verdict

Mask = NDArray[np.bool_]


class Filtered(Struct, frozen=True):
    """`rules` maps each rule that was looked at to the slots that it leaves out, `out` is all of them together;
    `no_local` says who must not serve both phases, None for nobody. `masks` is what follows for each role in a plan."""

    masks: Masks
    rules: dict[Rule, Mask]
    out: Mask
    no_local: Mask | None
    request: Request
    view: View

    @property
    def can_serve(self) -> bool:
        masks = self.masks
        pair = _any_free(masks.prefill_blocked) and _any_free(masks.decode_blocked)
        return pair or _any_free(masks.local_blocked)

    def without_passing(self) -> "Filtered":
        """The same with the rules that waiting cures set aside."""
        return self.under([rule for rule in self.rules if not rule.passing])

    def with_full_ones(self) -> "Filtered":
        """The same with full endpoints let in, for work that cannot be held and will wait there."""
        return self.under([rule for rule in self.rules if rule not in FULL])

    def under(self, rules: Sequence[Rule]) -> "Filtered":
        """The same as if only these rules were in force."""
        return _collected(
            self.request, self.view, {rule: self.rules[rule] for rule in rules if rule in self.rules}, self.no_local
        )

    def verdicts(self) -> tuple[Verdict, ...]:
        """One per endpoint that is left out, with the most permanent rule against it."""
        found: dict[int, Verdict] = {}
        if np.count_nonzero(self.out):
            for rule, mask in self.rules.items():
                for slot in mask.nonzero()[0].tolist():
                    if slot not in found and self.view.fleet.active[slot]:
                        endpoint = self.view.fleet.endpoints[slot]
                        reason, cure = _words(rule, endpoint, slot, self.request, self.view)
                        found[slot] = Verdict(endpoint.id, rule, reason, cure)
        return tuple(found[slot] for slot in sorted(found))


def filtered(request: Request, view: View, tried: set[EndpointId], local_allowed: bool) -> Filtered:
    """`local_allowed` says whether a decode endpoint may prefill for itself when a prefill pool exists."""
    fleet = view.fleet
    tokens = request.prompt_tokens + request.expected_output_tokens * fleet.decodes  # the answer grows where it decodes
    rules = {
        Rule.MODEL: ~fleet.of_model(request.model),
        Rule.TOO_LONG: (request.prompt_tokens >= fleet.model_tokens_max) | (tokens > fleet.kv_tokens),
        Rule.UNHEALTHY: ~view.known,
        **({Rule.TRIED: _tried(view, tried)} if tried else {}),
        Rule.UNREACHABLE: ~view.usable,
        # An endpoint that is empty takes whatever fits it at all: no request that ends there would make more room.
        Rule.HEADROOM: (np.ceil(tokens / fleet.block_tokens) > view.free_blocks) & (view.blocks_in_use > 0),
        Rule.SEQUENCES: fleet.decodes & (view.decode_sequences >= fleet.sequences_max),
    }
    no_local = None if local_allowed or not request.splittable else ~fleet.prefills
    return _collected(request, view, rules, no_local)


def _collected(request: Request, view: View, rules: dict[Rule, Mask], no_local: Mask | None) -> Filtered:
    fleet = view.fleet
    out = np.zeros(len(fleet), dtype=bool)
    for mask in rules.values():
        np.logical_or(out, mask, out=out)
    decode_blocked = out | ~fleet.decodes
    masks = Masks(
        prefill_blocked=out | ~fleet.prefills if request.splittable else np.ones(len(fleet), dtype=bool),
        decode_blocked=decode_blocked,
        local_blocked=decode_blocked if no_local is None else decode_blocked | no_local,
    )
    return Filtered(masks, rules, out, no_local, request, view)


def _any_free(blocked: Mask) -> bool:
    return int(np.count_nonzero(blocked)) < len(blocked)


def _tried(view: View, tried: set[EndpointId]) -> Mask:
    mask = np.zeros(len(view.fleet), dtype=bool)
    mask[[view.fleet.slots[endpoint] for endpoint in tried if endpoint in view.fleet.slots]] = True
    return mask


def _words(rule: Rule, endpoint: Endpoint, slot: int, request: Request, view: View) -> tuple[str, str]:
    tokens = request.prompt_tokens + request.expected_output_tokens * endpoint.role.decodes
    match rule:
        case Rule.MODEL:
            return f"serves {endpoint.model}, not {request.model}", "an endpoint with that model"
        case Rule.TOO_LONG:
            room = min(endpoint.model_tokens_max, endpoint.kv_tokens)
            least = max(tokens, request.prompt_tokens + 1)  # a model's length counts the answer wherever it is made
            return f"{least} tokens do not fit its {room}", "a shorter prompt"
        case Rule.UNHEALTHY:
            age_s = view.report_age_s[slot]
            if np.isinf(age_s):
                return "has never reported", "its first report"
            return f"has not reported for {age_s:.1f} s", "a new report"
        case Rule.TRIED:
            return "failed this request already", "another endpoint"
        case Rule.UNREACHABLE:
            return "does not answer", "a new report"
        case Rule.HEADROOM:
            free = max(0.0, float(view.free_blocks[slot]))
            need = -(-tokens // endpoint.block_tokens)
            return f"{need} blocks needed, {free:.0f} free", "a request that ends there"
        case Rule.SEQUENCES:
            return f"runs {view.decode_sequences[slot]:.0f} of {endpoint.sequences_max} sequences", "one that ends"
