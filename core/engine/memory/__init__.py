"""What only the engine can tell of memory: a model's shape, the forecast, a dry run with them."""
