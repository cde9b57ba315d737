"""Writes what a person notes about a run: its name, tags and a text; and names runs and their models."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from core.base import settings
from core.base.errors import OptionsError, Problem
from core.base.files import write_atomically
from core.base.language import _
from core.options import RunOptions
from core.options.choices import model_title
from core.options.past_runs import (
    FILE,
    LONGEST_NOTE,
    LONGEST_TAG,
    LONGEST_TITLE,
    MOST_TAGS,
    TAG_SEPARATORS,
    RunNotes,
    is_run,
    names_in,
    read,
    unique_tags,
)
from core.options.sources import HUB_MODELS, Scheme, scheme_of, short_name


def write(folder: Path, notes: RunNotes) -> None:
    """Writes the notes of the run in `folder`.

    Raises:
        OptionsError: A text is too long, or there are too many tags.
        OSError: The file can't be written.
    """
    checks = (
        (len(notes.title) > LONGEST_TITLE, _("a name has at most {most} characters"), LONGEST_TITLE),
        (len(notes.tags) > MOST_TAGS, _("a run has at most {most} tags"), MOST_TAGS),
        (
            any(len(tag) > LONGEST_TAG or TAG_SEPARATORS.search(tag) for tag in notes.tags),
            _("a tag has at most {most} characters and no space or comma"),
            LONGEST_TAG,
        ),
        (len(notes.text) > LONGEST_NOTE, _("a note has at most {most:,} characters"), LONGEST_NOTE),
    )
    problems = tuple(
        Problem("", message.format(most=most)) for is_broken, message, most in checks if is_broken
    )
    if problems:
        raise OptionsError(problems, _("The notes of the run"))
    write_atomically(folder / FILE, msgspec.json.format(msgspec.json.encode(notes)))


def tags_in(text: str) -> tuple[str, ...]:
    """Returns the tags in a text, separated by spaces or commas, with or without a leading `#`."""
    return unique_tags(filter(None, (word.lstrip("#") for word in TAG_SEPARATORS.split(text))))


def retagged(notes: RunNotes, add: Iterable[str] = (), remove: Iterable[str] = ()) -> RunNotes:
    """Returns the notes with tags added and removed, ignoring case."""
    removed = {tag.casefold() for tag in remove}
    remaining = [tag for tag in notes.tags if tag.casefold() not in removed]
    return msgspec.structs.replace(notes, tags=unique_tags([*remaining, *add]))


MOST_GENERATIONS = 3
"""Limit on following `run:` sources for a name; run folders of others may form a circle."""


def title_of(folder: Path, options: RunOptions | None) -> str:
    """Returns the name of a run: the one given later or at its start, else model and data, else its folder's name.

    `options` are the run's, None if they can't be read.
    """
    return read(folder).title or (asked_title(options) if options else "") or folder.name


def asked_title(options: RunOptions) -> str:
    """Returns the name of a run by its options: `output.name`, or model and data. Empty if it has none of these."""
    if options.output.name or not (options.model.source or options.data.train):
        return options.output.name or ""
    return _made_title(options.model.source, options.data.train)


def source_title(source: str) -> str:
    """Returns the model of a source in words: its title or short name; of a past run, the run's name."""
    if is_run(source):
        return _("of the run “{run}”").format(run=short_title(source))
    return model_title(source if source in HUB_MODELS else short_name(source))


def short_title(source: str, generations: int = MOST_GENERATIONS) -> str:
    """Returns a model's short name: what follows a scheme, the last part of a path or id, or a past run's title."""
    name = Scheme.RUN.name_of(source)
    if not name or not generations:
        return short_name(source)
    return title_in(settings.runs_folder() / name, generations) or short_name(source)


def title_in(folder: Path, generations: int = MOST_GENERATIONS) -> str:
    """Returns the name of the run in `folder`, as `title_of` without its options; empty if they can't be read."""
    own, model, data = names_in(folder)
    if not own and model and data:
        own = _made_title(model, data, generations - 1)
    return read(folder).title or own


def _made_title(source: str, data: str, generations: int = MOST_GENERATIONS) -> str:
    model, run = short_title(source, generations), Scheme.RUN.name_of(source)
    if run and names_in(settings.runs_folder() / run)[2] == data:
        return _("{run}, longer").format(run=model)
    return _("{model} on {data}").format(model=model, data=data_name(data))


def data_name(source: str) -> str:
    """Returns the short name of data: what follows a scheme, or the file's name without its ending."""
    name = short_name(source)
    return name if scheme_of(source) else Path(name).stem
