"""Charts, their series and axes."""
