"""Turns what goes wrong while a checkpoint is read into what a person can act on. Nothing in one is ever executed."""

import contextlib
import pickle
from collections.abc import Iterator
from pathlib import Path

from safetensors import SafetensorError

from core.engine.failures import is_out_of_memory
from core.errors import Fix, ModelError

UNREADABLE = (
    pickle.UnpicklingError,
    SafetensorError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    EOFError,
)
"""What torch, safetensors and transformers raise where a file is no state of this run; not where it can't be opened."""


@contextlib.contextmanager
def reading(checkpoint: str | None) -> Iterator[None]:
    """Refuse a checkpoint that isn't what it should be.

    Raises:
        ModelError: It holds something else than the state of this run: code, or what another model needs.
    """
    try:
        yield
    except UNREADABLE as error:
        if checkpoint is None or is_out_of_memory(error):
            raise
        name = Path(checkpoint).name
        if "weights only load failed" in str(error).lower() or isinstance(error, pickle.UnpicklingError):
            why = "it holds objects that only running code could bring back, and Hone runs none"
        else:
            why = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ModelError(
            f"{name} can't be gone on from",
            f"It is not what Hone saves: {why}. Nothing in it was run.",
            (
                Fix(
                    f"Move {name} out of the folder checkpoints, and resume from the one before or from the start"
                ),
            ),
        ) from error
