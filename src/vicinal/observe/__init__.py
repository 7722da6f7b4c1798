"""What was decided and what came of it: the decision record, how to read and explain it, and metrics."""
