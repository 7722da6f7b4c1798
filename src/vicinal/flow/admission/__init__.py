"""Early rejection: who is told at arrival that the fleet cannot serve in time."""
