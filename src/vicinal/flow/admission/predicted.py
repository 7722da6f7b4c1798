"""`predicted`: by the load at the moment at which the newcomer's prefill will end.

As Mooncake's prediction (FAST'25, section 7.4) takes it, for the system as a whole: everybody decodes for the same
time, so those that will have decoded for longer than that are gone by then, and those that prefill now are there.
"""

from vicinal.flow.admission.outlook import Forecast, Outlook


def predicted(outlook: Outlook) -> Forecast:
    ttft_s = outlook.engine_wait_s + outlook.ahead_s + outlook.prefill_s
    left_s = outlook.now_s + ttft_s - outlook.decode_s
    still_there = sum(began_s > left_s for began_s in outlook.decode_began_s)
    sequences = still_there + outlook.on_the_way + outlook.ahead + outlook.strangers + 1
    return Forecast(ttft_s, outlook.tpot_s(sequences))
