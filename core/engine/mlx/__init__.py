"""The engine on MLX, Apple's array library: language models on Apple silicon."""
