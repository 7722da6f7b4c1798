"""Layer 9: the command line. Parses words, calls the wiring, prints what comes back."""
