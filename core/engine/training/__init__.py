"""The training job: Trainer, what it is given, what watches it."""
