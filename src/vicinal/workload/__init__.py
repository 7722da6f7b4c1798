"""Layer 7: the work. Requests with their times, lengths and prompts, from a public trace or made from a seed."""
