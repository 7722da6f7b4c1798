"""Layer 1: who holds which prefix. Hashes of blocks, the index of block groups, and what engines say of them."""
