"""Who had a turn while a request waited for its own."""

from msgspec import Struct


class PassedBy(Struct, frozen=True):
    """Requests for the same model that were sent off meanwhile, by where they stood to the one that waited.

    `higher` are of bands above its own, `aged` of bands below it, whose age gave them a turn; of its own band, `others`
    are of other tenants and `own` of its tenant.
    """

    higher: int = 0
    aged: int = 0
    others: int = 0
    own: int = 0

    @property
    def all(self) -> int:
        return self.higher + self.aged + self.others + self.own
