"""Layer 4: what a policy may be, and how one is asked for by words. No rule of any is here."""
