"""Layer 2: what we believe about the fleet. Facts from the configuration, what we sent, what engines said, how old."""
