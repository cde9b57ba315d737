"""The list of runs and their comparison."""
