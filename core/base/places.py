"""Hone's own folder. It says no sentence: the language itself is chosen in it."""

import os
from pathlib import Path

import platformdirs


def home() -> Path:
    """Returns the folder for settings and runs: HONE_HOME, or the operating system's place for an application's data.

    Its name may not be UTF-8, see `core.base.settings.home`.
    """
    chosen = os.environ.get("HONE_HOME")
    return (
        without_tilde(chosen).absolute() if chosen else platformdirs.user_data_path("Hone", appauthor=False)
    )


def without_tilde(text: str) -> Path:
    """Returns a path with `~` and `~name` expanded; unchanged if there is no such user (`~notes.csv`)."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)
