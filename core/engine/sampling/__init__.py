"""A measurement of a benchmark: timed steps of a run in a fresh process."""
