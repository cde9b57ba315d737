"""All developer's benchmarks, one after the other: `python3 start.py bench`."""
