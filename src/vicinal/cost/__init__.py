"""Layer 3: seconds. What each way to serve a request would cost it and everybody else, term by term."""
