"""The keeper of a run: samples of the machine, and warnings."""
