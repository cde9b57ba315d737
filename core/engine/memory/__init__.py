"""Memory as only the engine can determine it: the shape of a model, the forecast of a run, and the dry run."""
