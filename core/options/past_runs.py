"""Runs by name, and the model of an earlier run as `run:NAME`.

A run file keeps the path of that run, so that it means the same after renaming.
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
from core.base.errors import Fix, OptionsError, Problem
from core.base.files import is_there, load_toml, read_small, read_text, write_atomically
from core.base.language import _
from core.options import RunOptions
from core.options.choices import Task
from core.options.sources import Lack, Scheme, scheme_of, short_name, what_lacks

# --- Title, tags and note


SCHEMA = 1
FILE = "notes.json"

LONGEST_TITLE = 120
LONGEST_TAG = 32
MOST_TAGS = 16
LONGEST_NOTE = 20_000
LARGEST_FILE = 1 << 20
"""Bytes; a longer file isn't one of these."""

MOST_GENERATIONS = 3
"""So many runs that started from one another are named after the first; a stranger's may name each other."""

_SEPARATORS = re.compile(r"[\s,]+")


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """`notes.json`: a title in place of the run's own (empty: its own), tags without spaces, and a text."""

    schema: int = SCHEMA
    title: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""


def read(folder: Path) -> RunNotes:
    """The notes of the run in `folder`, within limits; empty where the file is missing, damaged or too long."""
    path = folder / FILE
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
            return RunNotes()
        return _read(path, found.st_mtime_ns, found.st_size)
    except (OSError, ValueError, RecursionError):
        return RunNotes()


@lru_cache(maxsize=4096)
def _read(path: Path, _changed: int, _size: int) -> RunNotes:
    """Somebody else's file may hold anything: no more of it than is shown anywhere."""
    notes = msgspec.json.decode(read_small(path), type=RunNotes)
    tags = (_SEPARATORS.sub("-", tag.strip())[:LONGEST_TAG] for tag in notes.tags[:MOST_TAGS])
    return RunNotes(
        title=" ".join(notes.title[: 2 * LONGEST_TITLE].split())[:LONGEST_TITLE],
        tags=_each_once(tag for tag in tags if tag),
        text=notes.text[:LONGEST_NOTE],
    )


def write(folder: Path, notes: RunNotes) -> None:
    """Write the notes of the run in `folder`.

    Raises:
        OptionsError: Something of it is too long.
        OSError: It can't be written.
    """
    problems = []
    if len(notes.title) > LONGEST_TITLE:
        problems.append(
            _("a name has {longest_title} letters at most, this one {title:,}").format(
                longest_title=LONGEST_TITLE, title=len(notes.title)
            )
        )
    if len(notes.tags) > MOST_TAGS:
        problems.append(
            _("a run has {most_tags} tags at most, these are {tags}").format(
                most_tags=MOST_TAGS, tags=len(notes.tags)
            )
        )
    problems += [
        _("a tag has {longest_tag} letters at most and no space or comma: {tag}…").format(
            longest_tag=LONGEST_TAG, tag=tag[:LONGEST_TAG]
        )
        for tag in notes.tags
        if len(tag) > LONGEST_TAG or _SEPARATORS.search(tag)
    ]
    if len(notes.text) > LONGEST_NOTE:
        problems.append(
            _("a note has {longest_note:,} letters at most, this one {text:,}").format(
                longest_note=LONGEST_NOTE, text=len(notes.text)
            )
        )
    if problems:
        raise OptionsError(tuple(Problem("", problem) for problem in problems), _("The notes of the run"))
    write_atomically(folder / FILE, msgspec.json.format(msgspec.json.encode(notes)))


def tags_in(text: str) -> tuple[str, ...]:
    """The tags in a text, separated by spaces or commas, `#` before them left away. Each once, as first written."""
    words = (word.lstrip("#") for word in _SEPARATORS.split(text))
    return _each_once(word for word in words if word)


def retagged(notes: RunNotes, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunNotes:
    """The notes with some tags more and some less; upper and lower case are one."""
    gone = {tag.casefold() for tag in remove}
    kept = [tag for tag in notes.tags if tag.casefold() not in gone]
    return msgspec.structs.replace(notes, tags=_each_once([*kept, *add]))


def _each_once(tags: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(tag.casefold(), tag)
    return tuple(found.values())


# --- What a run is called


def title_of(folder: Path, options: RunOptions | None) -> str:
    """What a run is called: the name it was given later or at its start, else model and data, else its folder's name.

    Args:
        folder: The run's.
        options: The run's; None: they can't be read.
    """
    return read(folder).title or (asked_title(options) if options else "") or folder.name


def asked_title(options: RunOptions) -> str:
    """What a run is called where nobody has renamed it: its name, or model and data; empty where it names neither."""
    if options.output.name or not (options.model.source or options.data.train):
        return options.output.name or ""
    return _("{options} on {options_2}").format(options=model_name(options), options_2=data_name(options))


def model_name(options: RunOptions) -> str:
    """The model's short name: what follows a scheme, or the last part of its path or id; of a past run, its title."""
    return _model_name(options.model.source, MOST_GENERATIONS)


def data_name(options: RunOptions) -> str:
    """The training data's short name: what follows a scheme, or the file's name without its ending."""
    return _data_name(options.data.train)


def _model_name(source: str, generations: int) -> str:
    folder = _run_path(source)
    if folder is None or not generations:
        return short_name(source)
    name, model, data = _named(folder)
    own = name or (
        _("{model} on {data}").format(model=_model_name(model, generations - 1), data=_data_name(data))
        if model and data
        else ""
    )
    return read(folder).title or own or short_name(source)


def _data_name(source: str) -> str:
    name = short_name(source)
    return name if scheme_of(source) else Path(name).stem


def _named(folder: Path) -> tuple[str, str, str]:
    """The name, the model and the data that the run file in `folder` names; empty where it doesn't or can't be read."""
    path = folder / "run.toml"
    try:
        return _named_in(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, RecursionError):
        return "", "", ""


@lru_cache(maxsize=4096)
def _named_in(path: Path, _changed: int) -> tuple[str, str, str]:
    tree = load_toml(read_text(path))

    def text(section: str, name: str) -> str:
        values = tree.get(section)
        value = values.get(name) if isinstance(values, dict) else ""
        return value if isinstance(value, str) else ""

    return text("output", "name"), text("model", "source"), text("data", "train")


# --- Runs by name


CLOSE = 3
"""So many runs with similar names are offered."""


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
    return _folders(settings.runs_folder())


def _folders(parent: Path) -> list[Path]:
    try:
        return sorted((path for path in parent.iterdir() if path.is_dir()), reverse=True)
    except OSError:
        return []


def given_name(folder: Path) -> str:
    """What a person called the run in `folder`; empty where they didn't, or its run file can't be read."""
    return read(folder).title or _named(folder)[0]


def close_to(name: str, folders: list[Path]) -> list[Path]:
    """The folders whose names, or names given to them, are most like `name`: at most `CLOSE`.

    Args:
        name: What was looked for.
        folders: Those that may be meant, newest first.
    """
    names = {folder: {folder.name, given_name(folder) or folder.name} for folder in folders}
    alike = difflib.get_close_matches(name, {one for both in names.values() for one in both}, CLOSE, 0.5)
    best = [folder for one in alike for folder in folders if one in names[folder]]
    parts = [folder for folder in folders if any(name in one for one in names[folder])]
    same = [folder for folder in folders if name in names[folder]]
    return list(dict.fromkeys((*same, *best, *parts)))[:CLOSE]


# --- Models of runs


def is_run(source: str) -> bool:
    """Whether a model's source names a past run."""
    return Scheme.RUN.name_of(source) is not None


def _run_path(source: str) -> Path | None:
    """The folder that `run:NAME` names by path or by folder name; None where `source` is something else."""
    name = Scheme.RUN.name_of(source)
    return settings.runs_folder() / name if name else None


def run_folder(source: str) -> Path | None:
    """The folder of the run that `run:NAME` names, there or not; None where `source` is something else."""
    name = Scheme.RUN.name_of(source)
    if name is None:
        return None
    if Path(name).is_absolute():
        return Path(name)
    return folder_called(name) or settings.runs_folder() / name


def model_folder(source: str) -> Path | None:
    """Where the run that `run:NAME` names has its model, there or not; None where `source` is something else."""
    folder = run_folder(source)
    return None if folder is None else folder / "model"


def with_run_path(options: RunOptions) -> RunOptions:
    """The options with a past run named by its path."""
    folder = run_folder(options.model.source)
    if folder is None:
        return options
    source = Scheme.RUN.of(str(folder.absolute()))
    return msgspec.structs.replace(options, model=msgspec.structs.replace(options.model, source=source))


def task_of(folder: Path) -> Task | None:
    """What a run has learned; None where its run file doesn't tell."""
    try:
        return Task(load_toml(read_text(folder / "run.toml"))["task"])
    except (OSError, ValueError, KeyError, RecursionError):
        return None


def holds_adapter(folder: Path) -> bool:
    """Whether a run's model folder holds LoRA matrices and not a whole model."""
    return (folder / "adapter_config.json").is_file()


def problem_with(source: str, task: Task) -> Problem | None:
    """Why the model of the past run `source` can't be trained on for `task`; None where it can."""
    folder = run_folder(source)
    assert folder is not None, "for runs only"
    if not Scheme.RUN.name_of(source) or not folder.is_dir():
        return _no_run(Scheme.RUN.name_of(source) or "", folder)
    reason = _unfit(folder, task)
    return Problem("model.source", reason) if reason else None


def _unfit(folder: Path, task: Task) -> str:
    """What keeps the model of the run in `folder` from being trained on; empty: nothing."""
    model, learned = folder / "model", task_of(folder)
    if not model.is_dir():
        return _("the run {name} has no model: it didn't end, or its model was deleted").format(
            name=folder.name
        )
    if learned is None:
        return _("nobody knows what {name} learned: its run file can't be read").format(name=folder.name)
    if learned.reads_images != task.reads_images or (task.writes_text and not learned.writes_text):
        return f"the run {folder.name} learned “{learned.label}”; its model can't be used for “{task.label}”"
    if task.reads_images:
        if any((model / name).is_file() for name in ("config.json", "model.safetensors")):
            return ""
        return (
            f"the run {folder.name} trained LoRA matrices beside a model of torchvision's, which can't be trained on "
            "further; choose a run that trained all weights, or the last layer"
        )
    lacks_matrices = holds_adapter(model) and not (model / "adapter_model.safetensors").is_file()
    if lacks_matrices or what_lacks(model, needs_weights=True) not in (None, Lack.ALL_BUT_ADAPTER):
        return _("the model of the run {name} isn't whole: files are missing in {model}").format(
            name=folder.name, model=model
        )
    return ""


def _no_run(name: str, folder: Path) -> Problem:
    """There is no run of this name; suggests those that may be meant."""
    siblings = _folders(folder.parent) if Path(name).is_absolute() else run_folders()
    known = [path for path in siblings if (path / "model").is_dir()]
    namesakes = folders_given(name)
    if not name:
        example = _(", such as run:{name}").format(name=known[0].name) if known else ""
        return Problem(
            "model.source", _("name a run{example}").format(example=example), _fixes(known[:CLOSE])
        )
    if namesakes:
        message = (
            f"{len(namesakes)} runs are called “{name}”; name one by its folder, such as {namesakes[0].name}"
        )
        return Problem("model.source", message, _fixes(namesakes[:CLOSE]))
    close = close_to(Path(name).name, known)
    where = os.path.normpath(folder.parent)
    rest = (
        _("did you mean {name}?").format(name=close[0].name)
        if close
        else _("runs are in {where}").format(where=where)
    )
    return Problem("model.source", f"there is no run called “{name}”; {rest}", _fixes(close))


def _fixes(folders: list[Path]) -> tuple[Fix, ...]:
    """A fix for each run that may be meant: by its name where it lies among the others, else by its path."""
    home = settings.runs_folder()
    sources = {path.name: path.name if path.parent == home else str(path) for path in folders}
    return tuple(
        Fix(_("Use {name}").format(name=name), {"model.source": Scheme.RUN.of(source)})
        for name, source in sources.items()
    )
