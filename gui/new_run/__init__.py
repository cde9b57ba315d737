"""The page for a new run."""
