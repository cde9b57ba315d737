"""Faults put into Hone on purpose, and counts of what came of them. `benchmarks/faults.py` is the way in."""
