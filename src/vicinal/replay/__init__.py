"""Layer 8: the load client. It sends a workload on time, as its users would, and says what they got."""
