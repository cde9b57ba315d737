"""The keeper of a run, what it samples of the machine, and the rules that warn."""
