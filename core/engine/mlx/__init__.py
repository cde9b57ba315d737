"""Training with MLX, Apple's library for its own chips; the only package that imports it."""
