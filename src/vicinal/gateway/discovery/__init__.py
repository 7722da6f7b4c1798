"""Discovery: which engines there are, asked of whoever runs them."""
