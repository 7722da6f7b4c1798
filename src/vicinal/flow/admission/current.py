"""`current`: by the load of this moment, as Mooncake's first version did (Qin et al., FAST'25, section 7.2).

What prefills now is not seen by decode until it is there, so many are let in at once while decode is empty, and nobody
while it is full: the load of both pools swings. It is here to be compared with.
"""

from vicinal.flow.admission.outlook import Forecast, Outlook


def current(outlook: Outlook) -> Forecast:
    sequences = len(outlook.decode_began_s) + outlook.strangers + 1
    return Forecast(outlook.engine_wait_s + outlook.held_s + outlook.prefill_s, outlook.tpot_s(sequences))
