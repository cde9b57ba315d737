"""Look into data before a run: what is in it, what is wrong with it, and what the model will see of it."""
