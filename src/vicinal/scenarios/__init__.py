"""Named, seeded experiments, each of which backs a claim or refutes it."""
