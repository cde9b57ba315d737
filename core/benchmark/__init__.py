"""Benchmarks of methods and devices on this computer, and figures published by others."""
