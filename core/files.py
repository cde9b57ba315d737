"""Small files written whole or not at all, and taken away, whoever else has them open."""

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_SECONDS = 2.0


def write_atomically(path: Path, content: bytes) -> None:
    """Write to a temporary file beside `path`, flush it to disk, then rename it over `path`."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.close()
            Path(file.name).unlink(missing_ok=True)
            raise
    _patiently(lambda: Path(file.name).replace(path))


def remove(path: Path) -> None:
    """Take a file away; nothing happens where there is none."""
    _patiently(lambda: path.unlink(missing_ok=True))


def _patiently(action: Callable[[], object]) -> None:
    """Try again for a while what Windows refuses as long as another process reads the file."""
    deadline = time.monotonic() + (PATIENCE_SECONDS if os.name == "nt" else 0.0)
    while True:
        try:
            action()
        except PermissionError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.02)
        else:
            return
