"""Finding a run by what it is called: its folder's name, or the name that a person gave it, at its start or later."""

import difflib
from functools import lru_cache
from pathlib import Path

from core import run_notes, settings
from core.files import is_there, load_toml, read_text

CLOSE = 3
"""So many runs with names like the one asked for are offered."""


def folder_called(name: str) -> Path | None:
    """The folder among the runs that has this name, else that of the only run with this name given to it."""
    if not name:
        return None
    folder = settings.runs_folder() / name
    if is_there(folder) and folder.is_dir():
        return folder
    namesakes = folders_given(name)
    return namesakes[0] if len(namesakes) == 1 else None


def folders_given(name: str) -> list[Path]:
    """The folders of all runs that a person gave this name, newest first."""
    return [folder for folder in run_folders() if name and given_name(folder) == name]


def run_folders() -> list[Path]:
    """All folders among the runs, newest first by their names."""
    try:
        found = [path for path in settings.runs_folder().iterdir() if path.is_dir()]
    except OSError:
        return []
    return sorted(found, reverse=True)


def given_name(folder: Path) -> str:
    """What a person called the run in `folder`; empty where they didn't, or its run file can't be read."""
    later = run_notes.read(folder).title
    if later:
        return later
    path = folder / "run.toml"
    try:
        return _given_name(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, RecursionError):
        return ""


@lru_cache(maxsize=4096)
def _given_name(path: Path, _changed: int) -> str:
    output = load_toml(read_text(path)).get("output")
    return str(output.get("name") or "") if isinstance(output, dict) else ""


def close_to(name: str, folders: list[Path]) -> list[Path]:
    """The folders whose names, or names given to them, are most like `name`: at most `CLOSE`.

    Args:
        name: What was asked for.
        folders: Those that may be meant, newest first.
    """
    names = {folder: {folder.name, given_name(folder) or folder.name} for folder in folders}
    alike = difflib.get_close_matches(name, {one for both in names.values() for one in both}, CLOSE, 0.5)
    best = [folder for one in alike for folder in folders if one in names[folder]]
    parts = [folder for folder in folders if any(name in one for one in names[folder])]
    same = [folder for folder in folders if name in names[folder]]
    return list(dict.fromkeys((*same, *best, *parts)))[:CLOSE]
