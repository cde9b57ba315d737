"""What a person says of a run: another name for it, tags, and a note. Kept in its folder, so that they go along."""

import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from core import settings
from core.errors import OptionsError, Problem
from core.files import load_toml, read_small, read_text, write_atomically
from core.options import RunOptions
from core.sources import Scheme, scheme_of, short_name

SCHEMA = 1
FILE = "notes.json"

LONGEST_TITLE = 120
LONGEST_TAG = 32
MOST_TAGS = 16
MOST_GENERATIONS = 3
"""So many runs that started from one another are named after the first; a stranger's may name each other."""
LONGEST_NOTE = 20_000
LARGEST_FILE = 1 << 20
"""Bytes; a longer file isn't one of these."""

_BREAKS = re.compile(r"[\s,]+")


class RunNotes(msgspec.Struct, frozen=True, kw_only=True):
    """`notes.json`: a title in place of the run's own (empty: its own), tags without spaces, and a text."""

    schema: int = SCHEMA
    title: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""


def read(folder: Path) -> RunNotes:
    """What is said of the run in `folder`, within limits; nothing where the file is missing, damaged or too long."""
    try:
        return _read(folder / FILE, _stamp(folder / FILE))
    except (OSError, ValueError, RecursionError):
        return RunNotes()


def write(folder: Path, notes: RunNotes) -> None:
    """Write what is said of the run in `folder`. A damaged file, or one of a newer Hone, is first kept beside.

    Raises:
        OptionsError: Something of it is too long.
        OSError: It can't be written.
    """
    _check(notes)
    path = folder / FILE
    _keep_what_cant_be_read(path)
    write_atomically(path, msgspec.json.format(msgspec.json.encode(notes)))


def tags_in(text: str) -> tuple[str, ...]:
    """The tags that a text names, parted by spaces or commas; `#` before one is left away. Each once, as first said."""
    words = (word.lstrip("#") for word in _BREAKS.split(text))
    return _each_once(word for word in words if word)


def retagged(notes: RunNotes, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunNotes:
    """The notes with some tags more and some less; upper and lower case are one."""
    gone = {tag.casefold() for tag in remove}
    kept = [tag for tag in notes.tags if tag.casefold() not in gone]
    return msgspec.structs.replace(notes, tags=_each_once([*kept, *add]))


def title_of(folder: Path, options: RunOptions | None) -> str:
    """What a run is called: the name it was given later or at its start, else model and data, else its folder's name.

    Args:
        folder: The run's.
        options: What was asked of it; None: that can't be read.
    """
    return read(folder).title or (asked_title(options) if options else "") or folder.name


def asked_title(options: RunOptions) -> str:
    """What a run is called where nobody has renamed it: its name, or model and data; empty where it names neither."""
    if options.output.name or not (options.model.source or options.data.train):
        return options.output.name or ""
    return f"{model_name(options)} on {data_name(options)}"


def model_name(options: RunOptions) -> str:
    """The model's short name: what follows a scheme, or the last part of its path or id; of a past run, its title."""
    return _model_name(options.model.source)


def _model_name(source: str, generations: int = MOST_GENERATIONS) -> str:
    name = Scheme.RUN.name_of(source)
    if name and generations:
        folder = Path(name) if Path(name).is_absolute() else settings.runs_folder() / name
        try:
            return _title_of_past(folder, generations - 1) or short_name(source)
        except (OSError, ValueError, RecursionError):  # it is gone, or its run file is damaged
            pass
    return short_name(source)


def _title_of_past(folder: Path, generations: int) -> str:
    """What a run is called that another one started from; empty where its run file doesn't tell.

    Raises:
        OSError: It has no run file.
        ValueError: That can't be read.
    """
    path = folder / "run.toml"
    name, model, data = _asked(path, path.stat().st_mtime_ns)
    own = name or (f"{_model_name(model, generations)} on {_data_name(data)}" if model and data else "")
    return read(folder).title or own


@lru_cache(maxsize=4096)
def _asked(path: Path, _changed: int) -> tuple[str, str, str]:
    """The name, the model and the data that a run file names."""
    tree = load_toml(read_text(path))
    asked = (("output", "name"), ("model", "source"), ("data", "train"))
    sections = ((tree.get(section), name) for section, name in asked)
    found = [values.get(name) if isinstance(values, dict) else "" for values, name in sections]
    name, model, data = (one if isinstance(one, str) else "" for one in found)
    return name, model, data


def data_name(options: RunOptions) -> str:
    """The training data's short name: what follows a scheme, or the file's name without its ending."""
    return _data_name(options.data.train)


def _data_name(source: str) -> str:
    name = short_name(source)
    return name if scheme_of(source) else Path(name).stem


def _each_once(tags: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for tag in tags:
        found.setdefault(tag.casefold(), tag)
    return tuple(found.values())


def _check(notes: RunNotes) -> None:
    problems = []
    if len(notes.title) > LONGEST_TITLE:
        problems.append(f"a name has {LONGEST_TITLE} letters at most, this one {len(notes.title):,}")
    if len(notes.tags) > MOST_TAGS:
        problems.append(f"a run has {MOST_TAGS} tags at most, these are {len(notes.tags)}")
    problems += [
        f"a tag has {LONGEST_TAG} letters at most and no space or comma: {tag[:LONGEST_TAG]}…"
        for tag in notes.tags
        if len(tag) > LONGEST_TAG or _BREAKS.search(tag)
    ]
    if len(notes.text) > LONGEST_NOTE:
        problems.append(f"a note has {LONGEST_NOTE:,} letters at most, this one {len(notes.text):,}")
    if problems:
        raise OptionsError(tuple(Problem("", said) for said in problems), "What is said of the run")


def _stamp(path: Path) -> tuple[int, int]:
    """When a file was written and how long it is.

    Raises:
        OSError: It isn't there.
        ValueError: It is no file, or too long.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST_FILE:
        raise ValueError(f"{path} holds no notes")
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4096)
def _read(path: Path, _stamp: tuple[int, int]) -> RunNotes:
    return _within_limits(msgspec.json.decode(read_small(path), type=RunNotes))


def _within_limits(notes: RunNotes) -> RunNotes:
    """Somebody else's file may hold anything: no more of it than is shown anywhere."""
    tags = (_BREAKS.sub("-", tag.strip())[:LONGEST_TAG] for tag in notes.tags[:MOST_TAGS])
    return RunNotes(
        title=" ".join(notes.title[: 2 * LONGEST_TITLE].split())[:LONGEST_TITLE],
        tags=_each_once(tag for tag in tags if tag),
        text=notes.text[:LONGEST_NOTE],
    )


def _keep_what_cant_be_read(path: Path) -> None:
    """Copy a file beside that the next writing would lose.

    Raises:
        OSError: That can't be done.
    """
    try:
        _stamp(path)
        content = path.read_bytes()
    except FileNotFoundError:
        return
    except ValueError:
        path.replace(path.with_suffix(".damaged.json"))
        return
    try:
        schema = msgspec.json.decode(content, type=RunNotes).schema
    except (ValueError, RecursionError):  # no JSON, other fields, or no UTF-8
        write_atomically(path.with_suffix(".damaged.json"), content)
        return
    if schema > SCHEMA:
        write_atomically(path.with_suffix(f".schema-{schema}.json"), content)
