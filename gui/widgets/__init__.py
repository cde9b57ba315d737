"""Small controls used by more than one page."""
