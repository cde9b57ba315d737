"""The only room that imports torch, transformers and datasets; it runs as a child process."""
