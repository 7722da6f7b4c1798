"""Layer 8: the scheduler in virtual time, over modelled engines and a modelled network."""
