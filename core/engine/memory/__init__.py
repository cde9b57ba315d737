"""What only the engine can tell of memory: a model's shape, a trace without numbers, a dry run with them."""
