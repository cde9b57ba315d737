"""Making of a run's model what other programs take, and holding that against the model as it was trained."""
