"""Layer 9: the composition root. A configuration goes in, objects that run come out."""
