"""Layer 5: one rule per file. A policy reads the decision table and takes a row."""
