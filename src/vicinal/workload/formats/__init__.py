"""Formats of traces, one per file. Each reads lines and gives rows; trace.py makes a workload of them."""
