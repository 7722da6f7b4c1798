"""Trust groups: tenants that share prefixes with each other, and with nobody else (docs/trust.md).

Engines keep prompts with different cache salts apart, and so do our hashes, which take the salt for an extra key. So a
group is a salt. It is made of the group and the client's own salt, if it sent one, by a hash: whatever a client sends,
it cannot make another group's salt, and what it keeps apart inside its group stays apart. Where there are several
groups the default one has a salt too: otherwise whoever is in it could write another group's salt into a body.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from vicinal.domain.ids import TenantId


@dataclass(frozen=True, slots=True)
class TrustGroups:
    """`groups` names the group of some tenants. All others are in the default group, or, with `isolate`, each in one of
    its own; `unnamed` is the tenant of requests that name none, which stays in the default group."""

    groups: Mapping[TenantId, str] = field(default_factory=dict)
    isolate: bool = False
    unnamed: TenantId | None = None

    @property
    def several(self) -> bool:
        """False when all tenants are one group: then nothing is salted by us."""
        return self.isolate or bool(self.groups)

    def salt(self, tenant: TenantId, own: str | None) -> str | None:
        """The salt that engines get instead of the client's `own`; with one group for all it is just that, or None.

        Letters and digits only, short enough for vLLM, which forbids some characters and more than 128 of them.
        """
        if not self.several:
            return own
        parts = self._group(tenant) + (("own", own) if own is not None else ())
        told = b"".join(b"%d:%b" % (len(raw), raw) for raw in (part.encode("utf-8", "surrogatepass") for part in parts))
        return "vicinal" + blake2b(told, digest_size=20).hexdigest()

    def _group(self, tenant: TenantId) -> tuple[str, ...]:
        name = self.groups.get(tenant)
        if name is not None:
            return ("group", name)
        return ("tenant", tenant) if self.isolate and tenant != self.unnamed else ("default",)
