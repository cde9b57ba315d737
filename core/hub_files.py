"""The Hub's cache on this computer, by names and sizes of files alone: what of a repository is here.

Its layout: https://huggingface.co/docs/huggingface_hub/guides/manage-cache. Files lie in `blobs/`, named by a hash, and
under their own names in `snapshots/COMMIT/`, as links to those; `refs/main` names the commit that counts.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from core.hub_questions import Kind

PARTIAL = ".hone.incomplete"
"""The end of the names of files that haven't come to their end. Such names, but for "hone", are huggingface_hub's own,
which counts them as unfinished; but it never goes on with one (https://github.com/huggingface/huggingface_hub/pull/4228).
"""


def cache_folder() -> Path:
    """Where all programs keep what they fetched from the Hub."""
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    home = Path(os.environ.get("HF_HOME") or users / "huggingface").expanduser()
    return Path(os.environ.get("HF_HUB_CACHE") or home / "hub").expanduser()


def repo_folder(name: str, kind: Kind) -> Path:
    """The folder of a repository in the cache, whether it is there or not."""
    return cache_folder() / f"{kind}s--{name.replace('/', '--')}"


def snapshot(name: str, kind: Kind) -> Path | None:
    """The folder with the newest files of a repository under their own names; None where nothing of it is here."""
    folder = repo_folder(name, kind)
    try:
        commit = (folder / "refs" / "main").read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return None
    found = folder / "snapshots" / commit
    return found if commit and found.is_dir() else None


def names_here(name: str, kind: Kind) -> dict[str, int]:
    """Bytes by name of the files that have come to their end, as the repository calls them (`data/train.csv`)."""
    folder = snapshot(name, kind)
    if folder is None:
        return {}
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file()
    }


def partial_files(name: str, kind: Kind) -> list[Path]:
    """Files of this repository that Hone began to fetch."""
    return sorted((repo_folder(name, kind) / "blobs").glob(f"*{PARTIAL}"))


def bytes_here(name: str, kind: Kind, wanted: Iterable[str]) -> tuple[int, bool]:
    """How much of the `wanted` files is here, half files included, and whether that is all of them."""
    names = names_here(name, kind)
    wanted = tuple(wanted)
    come = sum(names.get(one, 0) for one in wanted)
    begun = sum(path.stat().st_size for path in partial_files(name, kind))
    return come + begun, bool(wanted) and all(one in names for one in wanted)
