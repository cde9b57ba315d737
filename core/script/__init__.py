"""A run as a plain script: the same training with transformers, TRL and PEFT alone; text in, text out, no torch."""
