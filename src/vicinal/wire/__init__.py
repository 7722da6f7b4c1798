"""Layer 7: values of the core as bytes, and back."""
