"""Layer 8: engines that are not there. They speak vLLM's dialect and take the time that the engine model says."""
