"""Build the program that needs no Python, tell what it weighs, and try it out."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bootstrap import trial
from bootstrap.environment import Environment
from bootstrap.errors import SetupError

SHOWN = 8
"""How many of the largest parts are listed."""


def build_and_try(environment: Environment) -> int:
    """Build with PyInstaller, print the sizes, run the trial; 0 where all went well.

    Raises:
        SetupError: PyInstaller failed, or the program built doesn't work.
    """
    log = environment.root / "build" / "pyinstaller.log"
    print(f"Building with PyInstaller, which takes 3 to 5 minutes (its output goes to {log}) …", flush=True)
    started = time.monotonic()
    build(environment, log)
    folder = environment.root / "dist" / "hone"
    print(f"Built in {time.monotonic() - started:.0f} s: {folder}, {size_of(folder) / 1e6:,.0f} MB")
    for name, size in largest_parts(folder / "_internal"):
        print(f"  {size / 1e6:7,.0f} MB  {name}")
    trial.run(folder / ("hone.exe" if sys.platform == "win32" else "hone"))
    return 0


def build(environment: Environment, log: Path) -> None:
    """Run PyInstaller on packaging/hone.spec."""
    root = environment.root
    log.parent.mkdir(exist_ok=True)
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(
            [
                environment.program("pyinstaller"),
                "--noconfirm",
                "--clean",
                str(root / "packaging" / "hone.spec"),
            ],
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode != 0:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
        raise SetupError(f"PyInstaller failed; the end of {log}:\n{tail}")


def largest_parts(folder: Path) -> list[tuple[str, int]]:
    """Name and bytes of the largest things in a folder, largest first."""
    sizes = [(entry.name, size_of(entry)) for entry in folder.iterdir()]
    return sorted(sizes, key=lambda part: part[1], reverse=True)[:SHOWN]


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
