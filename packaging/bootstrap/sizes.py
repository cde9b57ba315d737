"""What takes the room: bytes of folders, as a table."""

from __future__ import annotations

import os
from pathlib import Path

SHOWN = 12
"""How many of the largest parts are listed."""

MB = 1e6


def size_of(path: Path) -> int:
    """Bytes of a file, or of everything in a folder; links count nothing."""
    if path.is_symlink():
        return 0
    if path.is_file():
        return path.stat().st_size
    return sum(
        file.lstat().st_size
        for folder, _, names in os.walk(path)
        for file in (Path(folder) / name for name in names)
        if not file.is_symlink()
    )


def largest_parts(folder: Path, shown: int = SHOWN) -> list[tuple[str, int]]:
    """Name and bytes of the largest things in a folder, largest first, and of all the others together."""
    sizes = sorted(((entry.name, size_of(entry)) for entry in folder.iterdir()), key=lambda part: -part[1])
    rest = sizes[shown:]
    return sizes[:shown] + ([(f"{len(rest)} others", sum(size for _, size in rest))] if rest else [])


def table(folder: Path, shown: int = SHOWN) -> str:
    """The largest parts of a bundle and the sum, a line each."""
    whole = size_of(folder)
    inner = folder / "_internal"
    parts = largest_parts(inner if inner.is_dir() else folder, shown)
    if inner.is_dir():
        parts.append(("the programs themselves", whole - size_of(inner)))
    rows = [*parts, ("all of it", whole)]
    return "\n".join(f"  {size / MB:8,.1f} MB  {size / whole:4.0%}  {name}" for name, size in rows)
