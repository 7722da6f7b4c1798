"""How an engine spends time and memory. No sockets, no clock: cost, emulator and simulator share it."""
