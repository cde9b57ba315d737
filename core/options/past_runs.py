"""A past run as a model, `run:NAME`: its folder, its name as read from its files, and why it can't be trained.

A run file stores the path of that run, so that renaming it changes nothing. `core.runs.notes` writes names and tags.
"""

import difflib
import os
import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from core.base import settings
from core.base.errors import Fix, Problem
from core.base.files import is_there, load_toml, read_small, read_text
from core.base.language import _
from core.options import RunOptions
from core.options.catalogue import value_at
from core.options.choices import Task
from core.options.sources import Lack, Scheme, what_lacks

# --- What a person noted


SCHEMA = 1
FILE = "notes.json"

LONGEST_TITLE = 120
LONGEST_TAG = 32
MOST_TAGS = 16
LONGEST_NOTE = 20_000
LARGEST_FILE = 1 << 20
"""Bytes; a longer file is ignored."""


TAG_SEPARATORS = re.compile(r"[\s,]+")


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """`notes.json`: a title that replaces the run's own (unless empty), tags without spaces, and a text."""

    schema: int = SCHEMA
    title: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""


def read(folder: Path) -> RunNotes:
    """Reads the notes of the run in `folder`, cut to the limits; empty if missing, damaged or too long."""
    path = folder / FILE
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST_FILE:
            return RunNotes()
        return _read(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, RecursionError):
        return RunNotes()


@lru_cache(maxsize=4096)
def _read(path: Path, _modified: int, _size: int) -> RunNotes:
    notes = msgspec.json.decode(read_small(path), type=RunNotes)
    tags = (TAG_SEPARATORS.sub("-", tag.strip())[:LONGEST_TAG] for tag in notes.tags[:MOST_TAGS])
    return RunNotes(
        title=" ".join(notes.title[: 2 * LONGEST_TITLE].split())[:LONGEST_TITLE],
        tags=unique_tags(filter(None, tags)),
        text=notes.text[:LONGEST_NOTE],
    )


def unique_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Returns the tags without repetitions, ignoring case; the first spelling stays."""
    by_key: dict[str, str] = {}
    for tag in tags:
        by_key.setdefault(tag.casefold(), tag)
    return tuple(by_key.values())


# --- Names of runs


def names_in(folder: Path) -> tuple[str, str, str]:
    """Reads `output.name`, `model.source` and `data.train` of a run file; empty if it can't be read."""
    path = folder / "run.toml"
    try:
        return _names_in_file(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, RecursionError):
        return "", "", ""


@lru_cache(maxsize=4096)
def _names_in_file(path: Path, _modified: int) -> tuple[str, str, str]:
    tree = load_toml(read_text(path))
    values = [value_at(tree, option, "") for option in ("output.name", "model.source", "data.train")]
    name, model, data = (value if isinstance(value, str) else "" for value in values)
    return name, model, data


# --- Runs by name


CLOSE = 3
"""At most so many similar names are suggested."""


def folder_called(name: str) -> Path | None:
    """Returns the run folder of this name, else that of the only run which was given this name."""
    if not name:
        return None
    folder = settings.runs_folder() / name
    if is_there(folder) and folder.is_dir():
        return folder
    namesakes = folders_given(name)
    return namesakes[0] if len(namesakes) == 1 else None


def folders_given(name: str) -> list[Path]:
    """Returns the folders of all runs that were given this name, newest first."""
    return [folder for folder in run_folders() if name and given_name(folder) == name]


def run_folders() -> list[Path]:
    """Returns all run folders, newest first by their names."""
    return _folders(settings.runs_folder())


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted((path for path in parent.iterdir() if path.is_dir()), reverse=True)
    except OSError:
        return []


def given_name(folder: Path) -> str:
    """Returns the name that a person gave the run in `folder`; empty if there is none or its run file can't be read."""
    return read(folder).title or names_in(folder)[0]


def close_to(name: str, folders: list[Path]) -> list[Path]:
    """Returns at most `CLOSE` of the folders: those with the name, then with similar names, then with longer ones."""
    names = {folder: {folder.name, given_name(folder) or folder.name} for folder in folders}
    similar = difflib.get_close_matches(name, {each for both in names.values() for each in both}, CLOSE, 0.5)
    ranked = [folder for each in (name, *similar) for folder in folders if each in names[folder]]
    longer = [folder for folder in folders if any(name in each for each in names[folder])]
    return list(dict.fromkeys((*ranked, *longer)))[:CLOSE]


# --- Models of runs


def is_run(source: str) -> bool:
    return Scheme.RUN.name_of(source) is not None


def run_folder(source: str) -> Path | None:
    """Returns the folder of `run:NAME`, whether it exists or not; None for other sources."""
    name = Scheme.RUN.name_of(source)
    if name is None:
        return None
    if Path(name).is_absolute():
        return Path(name)
    return folder_called(name) or settings.runs_folder() / name


def model_folder(source: str) -> Path | None:
    """Returns the model folder of `run:NAME`, whether it exists or not; None for other sources."""
    folder = run_folder(source)
    return None if folder is None else folder / "model"


def with_run_path(options: RunOptions) -> RunOptions:
    """Returns the options with the absolute path of a past run in place of its name."""
    folder = run_folder(options.model.source)
    if folder is None:
        return options
    source = Scheme.RUN.of(str(folder.absolute()))
    return msgspec.structs.replace(options, model=msgspec.structs.replace(options.model, source=source))


def task_of(folder: Path) -> Task | None:
    """Returns the task of a run; None if its run file can't be read."""
    try:
        return Task(load_toml(read_text(folder / "run.toml"))["task"])
    except (OSError, ValueError, KeyError, RecursionError):
        return None


def holds_adapter(folder: Path) -> bool:
    """Returns whether a run's model folder holds a LoRA adapter instead of a whole model."""
    return (folder / "adapter_config.json").is_file()


def problem_with(source: str, task: Task) -> Problem | None:
    """Returns why the model of the past run `source` can't be trained on `task`; None if it can."""
    folder = run_folder(source)
    assert folder is not None, "for runs only"
    if not Scheme.RUN.name_of(source) or not folder.is_dir():
        return _no_run(Scheme.RUN.name_of(source) or "", folder)
    reason = _unfit(folder, task)
    return Problem("model.source", reason) if reason else None


def _unfit(folder: Path, task: Task) -> str:
    """Returns why the model of the run in `folder` can't be trained on `task`; empty if it can."""
    model, learned = folder / "model", task_of(folder)
    if not model.is_dir():
        return _(
            "the run {name} has no model: it has not finished, it was not to keep one, or its model was deleted"
        ).format(name=folder.name)
    if learned is None:
        return _("the task of {name} is unknown: its run file can't be read").format(name=folder.name)
    if learned.reads_images != task.reads_images or (task.writes_text and not learned.writes_text):
        return _("the run {name} was trained for “{learned}”; its model can't be used for “{task}”").format(
            name=folder.name, learned=learned.label, task=task.label
        )
    if task.reads_images:
        if any((model / name).is_file() for name in ("config.json", "model.safetensors")):
            return ""
        return _(
            "the run {name} trained a LoRA adapter of a torchvision model, which can't be trained further; choose a "
            "run that trained all weights or the last layer"
        ).format(name=folder.name)
    if what_lacks(model, needs_weights=True) not in (None, Lack.ALL_BUT_ADAPTER) or (
        holds_adapter(model) and not (model / "adapter_model.safetensors").is_file()
    ):
        return _("the model of the run {name} is incomplete: files are missing in {model}").format(
            name=folder.name, model=model
        )
    return ""


def _no_run(name: str, folder: Path) -> Problem:
    """Returns the problem that no run, or several, have this name; suggests those with similar names."""
    siblings = _folders(folder.parent) if Path(name).is_absolute() else run_folders()
    with_model = [path for path in siblings if (path / "model").is_dir()]
    namesakes = folders_given(name)
    if not name:
        suggested = with_model[:CLOSE]
        message = (
            _("name a run, such as run:{name}").format(name=suggested[0].name)
            if suggested
            else _("name a run")
        )
    elif namesakes:
        suggested = namesakes[:CLOSE]
        message = _("{count} runs are called “{name}”; name one by its folder, such as {folder}").format(
            count=len(namesakes), name=name, folder=suggested[0].name
        )
    elif suggested := close_to(Path(name).name, with_model):
        message = _("there is no run called “{name}”; did you mean {other}?").format(
            name=name, other=suggested[0].name
        )
    else:
        message = _("there is no run called “{name}”; runs are in {folder}").format(
            name=name, folder=os.path.normpath(folder.parent)
        )
    home = settings.runs_folder()
    fixes = {path.name: path.name if path.parent == home else str(path) for path in suggested}
    return Problem(
        "model.source",
        message,
        tuple(
            Fix(_("Use {name}").format(name=label), {"model.source": Scheme.RUN.of(run)})
            for label, run in fixes.items()
        ),
    )
