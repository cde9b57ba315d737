"""One model in a process of its own that answers questions: the trained model of a run, or the one it started from."""
