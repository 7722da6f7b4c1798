"""How near the engine model comes to engines that were measured."""
