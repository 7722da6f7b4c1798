"""Who may not serve a request, and why. Masks over slots; a reason per endpoint is made only when it is asked for."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from vicinal.cluster.view import View
from vicinal.cost.model import Masks
from vicinal.domain.endpoint import Endpoint
from vicinal.domain.ids import EndpointId
from vicinal.domain.request import Request
from vicinal.domain.verdict import FULL, Rule, Verdict
from vicinal.flow.breakers import LeftOut
from vicinal.flow.reserves import Reserves

Mask = NDArray[np.bool_]


class Filtered(Struct, frozen=True):
    """`rules` maps each rule that leaves somebody out to the slots that it leaves out; `out` is all of them together,
    None for nobody. `no_local` says who must not serve both phases, None for nobody but those who cannot decode.
    `masks` is what follows for each role in a plan. `left_out` says why circuits are
    open, by slot. `limit_s` is set where the rule `saturated` is in force."""

    masks: Masks
    rules: dict[Rule, Mask]
    out: Mask | None
    no_local: Mask | None
    request: Request
    view: View
    left_out: Mapping[int, LeftOut]
    limit_s: NDArray[np.float64] | None = None

    @property
    def can_serve(self) -> bool:
        masks, kinds = self.masks, self.view.fleet.hand_offs
        pair = _any_free(masks.prefill_blocked) and _any_free(masks.decode_blocked)
        if pair and kinds:
            pair = any(_any_free(masks.prefill_blocked | ~k) and _any_free(masks.decode_blocked | ~k) for k in kinds)
        return pair or _any_free(masks.local_blocked)

    @property
    def entry(self) -> Mask:
        """Where prefill work would be queued: on those who can prefill in a pair; where no pair can serve, on those who
        can serve it whole."""
        masks = self.masks
        paired = ~masks.prefill_blocked
        if _any_free(masks.prefill_blocked) and _any_free(masks.decode_blocked):
            return paired
        return ~masks.local_blocked

    def saturated(self, limit_s: NDArray[np.float64]) -> "Filtered":
        """The same, with all of its entry left out: each of them has work queued for its limit, in seconds per slot."""
        rules = {**self.rules, Rule.SATURATED: self.entry}
        return structs.replace(self, rules=rules, out=_joined(self.entry, self.out), limit_s=limit_s)

    def without_passing(self) -> "Filtered":
        """The same with the rules that waiting cures set aside."""
        return self.under([rule for rule in self.rules if not rule.passing])

    def with_full_ones(self) -> "Filtered":
        """The same with full endpoints let in, for work that cannot be held and will wait there."""
        return self.under([rule for rule in self.rules if rule not in FULL])

    def with_the_last_ones(self) -> "Filtered":
        """The same, but circuits are set aside when of those that are not full they leave nobody: a request that breaks
        every engine it meets must not close the fleet to all others."""
        whoever_is_full = [rule for rule in self.rules if rule not in FULL]
        if self.under(whoever_is_full).can_serve:
            return self
        without = self.under([rule for rule in whoever_is_full if rule is not Rule.CIRCUIT])
        return self.under([rule for rule in self.rules if rule is not Rule.CIRCUIT]) if without.can_serve else self

    def under(self, rules: Sequence[Rule]) -> "Filtered":
        """The same as if only these rules were in force."""
        kept = {rule: self.rules[rule] for rule in rules if rule in self.rules}
        return _collected(self.request, self.view, kept, self.no_local, self.left_out)

    def as_copy(self, holders: Mask, target: Mask) -> "Filtered":
        """The same for a copy: a holder hands it over, the target takes it. Roles, which are about requests of clients,
        do not matter."""
        neither = ~(holders | target)
        out = _joined(neither, self.out)
        unable = _joined(~self.view.fleet.hands_off, out)
        masks = Masks(unable | ~holders | target, unable | ~target, np.ones_like(neither))
        return structs.replace(self, masks=masks, rules={**self.rules, Rule.UNINVOLVED: neither}, out=out)

    def verdicts(self) -> tuple[Verdict, ...]:
        """One per endpoint that is left out, with the most permanent rule against it."""
        found: dict[int, Verdict] = {}
        if self.out is not None:
            for rule, mask in self.rules.items():
                for slot in mask.nonzero()[0].tolist():
                    if slot not in found and self.view.fleet.active[slot]:
                        found[slot] = self.verdict(rule, slot)
        return tuple(found[slot] for slot in sorted(found))

    def verdict(self, rule: Rule, slot: int) -> Verdict:
        """Why this rule, which is in force, leaves this slot out."""
        endpoint = self.view.fleet.endpoints[slot]
        reason, cure = self._words(rule, endpoint, slot)
        return Verdict(endpoint.id, rule, reason, cure)

    def _words(self, rule: Rule, endpoint: Endpoint, slot: int) -> tuple[str, str]:
        request, view = self.request, self.view
        tokens = request.prompt_tokens + request.expected_output_tokens * endpoint.role.decodes
        match rule:
            case Rule.MODEL:
                return f"serves {endpoint.model}, not {request.model}", "an endpoint with that model"
            case Rule.TOO_LONG:
                room = min(endpoint.model_tokens_max, endpoint.kv_tokens)
                least = max(tokens, request.prompt_tokens + 1)  # a model's length counts the answer wherever it is made
                return f"{least} tokens do not fit its {room}", "a shorter prompt"
            case Rule.PARTNER:
                return (
                    f"hands off by {endpoint.hand_off}, and nobody is there to go with it",
                    "an endpoint of that kind",
                )
            case Rule.RESERVED:
                return "is reserved for other tenants", "an endpoint that is not"
            case Rule.UNHEALTHY:
                age_s = view.report_age_s[slot]
                if np.isinf(age_s):
                    return "has never reported", "its first report"
                return f"has not reported for {age_s:.1f} s", "a new report"
            case Rule.TRIED:
                return "failed this request already", "another endpoint"
            case Rule.UNREACHABLE:
                return "does not answer", "a new report"
            case Rule.CIRCUIT:
                why, until = self.left_out[slot], "its probe works"
                if why.until_s is not None:
                    until = f"{max(0.0, why.until_s - view.now_s):.0f} s, and a probe that works"
                return f"has failed legs for {view.now_s - why.since_s:.0f} s, the last: {why.reason}", until
            case Rule.HEADROOM:
                free = max(0.0, float(view.free_blocks[slot]))
                need = -(-tokens // endpoint.block_tokens)
                return f"{need} blocks needed, {free:.0f} free", "a request that ends there"
            case Rule.SEQUENCES:
                return f"runs {view.decode_sequences[slot]:.0f} of {endpoint.sequences_max} sequences", "one that ends"
            case Rule.SHARE:
                return "has no room but what is reserved for other tenants", "a request that ends there"
            case Rule.SATURATED:
                wait_s, limit_s = (
                    view.own_wait_prefill_s[slot],
                    math.inf if self.limit_s is None else self.limit_s[slot],
                )
                return f"has {wait_s:.2f} s of prefill queued, its limit is {limit_s:.2f} s", "its queue gets shorter"
            case Rule.UNINVOLVED:
                return (
                    f"does not hold all {request.blocks} blocks, and the copy is not for it",
                    "the rest of the prefix",
                )


def filtered(
    request: Request,
    view: View,
    tried: set[EndpointId],
    local_allowed: bool,
    reserves: Reserves,
    left_out: Mapping[int, LeftOut],
) -> Filtered:
    """`local_allowed` says whether a decode endpoint may prefill for itself when a prefill pool exists. `left_out` are
    the slots whose circuits are open.

    Most rules leave nobody out of most decisions, and one number tells (the least room of the fleet, say): a mask is
    made only when it has something to say.
    """
    rules = {
        rule: mask for rule, mask in _looked_at(request, view, tried, reserves, left_out) if np.count_nonzero(mask)
    }
    no_local = None if local_allowed or not request.splittable else ~view.fleet.prefills
    out = _collected(request, view, rules, no_local, left_out)
    return out.with_the_last_ones() if Rule.CIRCUIT in rules else out


def _looked_at(
    request: Request, view: View, tried: set[EndpointId], reserves: Reserves, left_out: Mapping[int, LeftOut]
) -> Iterator[tuple[Rule, Mask]]:
    """The rules that may leave somebody out, the most permanent first."""
    fleet, prompt_tokens = view.fleet, request.prompt_tokens
    most_tokens = prompt_tokens + request.expected_output_tokens
    if (others := fleet.not_of_model(request.model)) is not None:
        yield Rule.MODEL, others
    if prompt_tokens >= fleet.prompt_tokens_limit or most_tokens > fleet.request_tokens_max:
        yield Rule.TOO_LONG, (prompt_tokens >= fleet.model_tokens_max) | (_tokens(request, view) > fleet.kv_tokens)
    if fleet.alone is not None:
        yield Rule.PARTNER, fleet.alone
    if (of_others := reserves.endpoints_of_others(request, fleet)) is not None:
        yield Rule.RESERVED, of_others
    if not view.all_usable:
        yield Rule.UNHEALTHY, ~view.known
    if tried:
        yield Rule.TRIED, _tried(view, tried)
    if not view.all_usable:
        yield Rule.UNREACHABLE, ~view.usable
    if left_out:
        yield Rule.CIRCUIT, _of_slots(view, left_out)
    if math.ceil(most_tokens / fleet.block_tokens_min) > np.minimum.reduce(view.free_blocks, initial=np.inf):
        # An endpoint that is empty takes whatever fits it at all: no request that ends there would make more room.
        lacking = np.ceil(_tokens(request, view) / fleet.block_tokens) > view.free_blocks
        yield Rule.HEADROOM, lacking & (view.blocks_in_use > 0)
    yield Rule.SEQUENCES, view.decode_sequences >= fleet.decoding_max
    if (kept := reserves.kept_from(request, fleet)) is not None:
        lacking = np.ceil(_tokens(request, view) / fleet.block_tokens) > view.free_blocks - kept.blocks
        yield Rule.SHARE, lacking | (view.decode_sequences >= fleet.decoding_max - kept.sequences)


def _tokens(request: Request, view: View) -> NDArray[np.float64]:
    """What the request fills on each endpoint by its end: the answer grows where it decodes."""
    return request.prompt_tokens + request.expected_output_tokens * view.fleet.decodes.astype(np.float64)


def _collected(
    request: Request, view: View, rules: dict[Rule, Mask], no_local: Mask | None, left_out: Mapping[int, LeftOut]
) -> Filtered:
    fleet = view.fleet
    out: Mask | None = None
    for mask in rules.values():
        out = mask if out is None else out | mask
    masks = Masks(
        prefill_blocked=_joined(fleet.not_prefill, out) if request.splittable else np.ones(len(fleet), dtype=bool),
        decode_blocked=_joined(fleet.not_decode, out),
        local_blocked=_joined(_joined(fleet.not_whole, out), no_local),
    )
    return Filtered(masks, rules, out, no_local, request, view, left_out)


def _joined(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask | other


def _any_free(blocked: Mask) -> bool:
    return int(np.count_nonzero(blocked)) < len(blocked)


def _tried(view: View, tried: set[EndpointId]) -> Mask:
    return _of_slots(view, [view.fleet.slots[endpoint] for endpoint in tried if endpoint in view.fleet.slots])


def _of_slots(view: View, slots: Collection[int]) -> Mask:
    mask = np.zeros(len(view.fleet), dtype=bool)
    mask[list(slots)] = True
    return mask
