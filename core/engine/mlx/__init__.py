"""Training with MLX, Apple's array library: the only package that imports it."""
