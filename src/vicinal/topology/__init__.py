"""Layer 1: where things are, how far apart, and which links lie between them."""
