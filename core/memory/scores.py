"""The tiles in which TRL scores tokens (`trl.kernels.chunked_logprob`, 1.16). All figures are numbers, not bytes."""

TILE_TOKENS, TILE_WORDS = 4096, 32768
"""So many tokens are multiplied with so many words at a time."""

FOLDS_FORWARD, FOLDS_BACKWARD = 3, 6
"""Tiles of fp32 that are there at once where torch folds them, step by step."""


def tile_of(kind: str, tokens: int, words: int) -> tuple[int, int]:
    """Rows and columns of a tile. On a CPU, memory is taken where it is written to: only as wide as there are words."""
    return min(tokens, TILE_TOKENS), TILE_WORDS if kind == "cuda" else min(words, TILE_WORDS)
