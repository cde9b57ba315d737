"""Answers to many images, or to each row of a file of texts, as a CSV file."""

import csv
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from core.base.errors import DataError, Fix, UserError
from core.base.files import is_plain
from core.base.language import _, ngettext
from core.engine.data.columns import guess_columns, guess_text, text_reader
from core.engine.data.tables import Table, read_table
from core.engine.data.text_files import TEXT_ENDINGS, Passes, ending, in_order, listed, open_text
from core.engine.generate.loading import TriedModel
from core.engine.generate.predict import ShouldStop, classes_of, classify, image_sample, logits_of_one
from core.engine.tasks.metrics import OUTSIDE
from core.jobs.chat import Answered, Ask, Files, FilesPart, Texts
from core.options.choices import Task
from core.options.presets import IMAGE_FORMATS

TELL_SECONDS = 0.2
"""Seconds between two reports of progress."""

BATCH_ROWS = 1024
FILE, PROBLEM = "file", "problem"
LABELLED = ("predicted", "probability")
ADDED = {Task.TEXT_REGRESSION: ("predicted",), Task.TOKEN_CLASSIFICATION: ("predicted",)}
"""Names of columns in the CSV file; where the file has one of that name, a number follows."""

Asked = Path | tuple[str, ...]
"""An image file, or the text or pair of texts of a row."""


def answer_files(
    model: TriedModel, asked: Ask, tell: Callable[[FilesPart], None], should_stop: ShouldStop
) -> Answered:
    """Answers each image or row, and writes them with their answers. What is left when it is stopped has no answer.

    Raises:
        UserError: There is nothing to answer in these files, or the model writes texts.
    """
    files = asked.given
    assert isinstance(files, Files), "other questions are answered one at a time"
    if model.task.writes_text:
        raise UserError(_("This model can't answer that"), _("{name} writes texts.").format(name=model.name))
    paths = [Path(path) for path in files.paths]
    columns: tuple[str, ...]
    rows: Iterable[tuple[str, ...]]
    items: Iterable[Asked]
    if model.task.reads_images:
        items = images = images_in(paths)
        columns, rows, total = (FILE,), ((str(path),) for path in images), len(images)
    else:
        table = read_texts(paths)
        items = rows_of(table, text_columns(model, table, in_pairs=files.in_pairs))
        columns, rows, total = table.columns, rows_of(table, table.columns), table.rows.num_rows
    answers, problems, told = list[tuple[str, ...]](), dict[int, str](), time.monotonic()
    for place, item in enumerate[Asked](items):
        if should_stop():
            break
        try:
            answers.append(_cells(model, asked, item))
        except UserError as error:
            problems[place] = error.detail.removeprefix(f"{item}: ")  # the file has a column of its own
            answers.append(("",) * len(LABELLED))
        if time.monotonic() - told > TELL_SECONDS:
            told = time.monotonic()
            tell(FilesPart(id=asked.id, done=len(answers), total=total))
    added = tuple(_free(name, columns) for name in ADDED.get(model.task, LABELLED))
    reason = (_free(PROBLEM, columns),) if problems else ()
    with Path(files.output).open("w", encoding="utf-8-sig", newline="") as file:  # the mark is for Excel
        written = csv.writer(file)
        written.writerow((*columns, *added, *reason))
        for place, (row, answer) in enumerate(zip_longest(rows, answers, fillvalue=("",) * len(LABELLED))):
            reasons = (problems.get(place, ""),) if problems else ()
            written.writerow((*row, *answer[: len(added)], *reasons))
    return Answered(
        id=asked.id,
        name=model.name,
        rows=len(answers) - len(problems),
        added=(*added, *reason),
        notes=tuple(_notes(len(answers), total, len(problems), *reason)),
    )


def images_in(paths: Sequence[Path]) -> list[Path]:
    """Returns the images among the paths and in folders, also in folders of those.

    Raises:
        DataError: There are none.
    """
    found = [image for path in paths for image in (_images_below(path) if path.is_dir() else (path,))]
    if not found:
        raise DataError(
            _("There are no images to classify"),
            _("{paths}: no file ends in {endings}.").format(
                paths=listed([str(path) for path in paths]), endings=", ".join(IMAGE_FORMATS)
            ),
        )
    return found


def _images_below(folder: Path) -> Iterator[Path]:
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = in_order(Path(where, name) for name in names if not name.startswith("."))
        yield from (path for path in files if path.suffix.lower() in IMAGE_FORMATS and is_plain(path))


def read_texts(paths: Sequence[Path]) -> Table:
    """Reads a table, or a text file that is none line by line.

    Raises:
        DataError: It can't be read, or there are several files.
    """
    path = paths[0]
    if len(paths) > 1 or path.is_dir():
        raise DataError(
            _("Texts are classified one file at a time"),
            _("{paths}: this model reads texts.").format(paths=listed([str(path) for path in paths])),
            (Fix(_("Choose one CSV, TSV, JSON, JSONL, Parquet or text file, with a text in each row")),),
        )
    try:
        return read_table(path)
    except DataError:
        if ending(path) not in TEXT_ENDINGS:
            raise
    lines = [line.strip() for _first, block in open_text(path, Passes(0, None)).lines() for line in block]
    numbers = np.array([number for number, line in enumerate(lines, 1) if line], np.int64)
    return Table(path, "text", pa.table({"text": [*filter(None, lines)]}), numbers, "line")


def text_columns(model: TriedModel, table: Table, *, in_pairs: bool) -> tuple[str, ...]:
    """Returns the columns to read: those of the training data, or else the likeliest.

    Raises:
        DataError: There are too few.
    """
    named, count = model.options.data.text_columns, 2 if in_pairs else 1
    if named and set(named) <= set(table.columns):
        return named
    if len(table.columns) == count:
        return table.columns
    guessed = guess_columns(table).text if in_pairs else guess_text(table)
    if len(guessed) < count:
        title = _("{name} has no two columns of texts") if in_pairs else _("{name} has no column of texts")
        raise DataError(
            title.format(name=table.path.name),
            _("{path} has these columns: {columns}.").format(path=table.path, columns=listed(table.columns)),
            (Fix(_("Name the columns of texts as in the training data")),),
        )
    return guessed


def rows_of(table: Table, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yields the values of columns as text, row by row; missing ones are empty."""
    readers = {name: text_reader(table.rows[name]) for name in names}
    for batch in table.rows.select(list(names)).to_batches(BATCH_ROWS):
        cells = (
            [text or "" for text in read(pa.chunked_array([batch[name]])).to_pylist()]
            for name, read in readers.items()
        )
        yield from zip(*cells, strict=True)


def _cells(model: TriedModel, asked: Ask, item: Asked) -> tuple[str, ...]:
    """Returns the answer as the cells that are added to its row."""
    if isinstance(item, Path):
        assert model.transform is not None, "a model of images has one"
        logits = logits_of_one(model, image_sample(model.transform, item))
        answered = classes_of(model, asked, logits, read=0)
    else:
        answered = classify(model, msgspec.structs.replace(asked, given=Texts(texts=item)))
    if answered.number is not None:
        return (f"{answered.number:.6g}",)
    if answered.chances:
        return answered.chances[0].label, f"{answered.chances[0].chance:.4f}"
    text = " ".join(item) if isinstance(item, tuple) else ""
    words = (
        f"{text[word.start : word.end]} [{word.label}]" for word in answered.words if word.label != OUTSIDE
    )
    return (", ".join(words),)


def _free(name: str, taken: Sequence[str]) -> str:
    numbered = (name if number == 1 else f"{name}_{number}" for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def _notes(answered: int, total: int, problems: int, column: str = "") -> Iterator[str]:
    if answered < total:
        yield _("Stopped: {count:,} of {total:,} were answered.").format(count=answered, total=total)
    if problems:
        note = ngettext(
            "{count:,} has no answer; the reason is in the column “{column}”.",
            "{count:,} have no answer; the reasons are in the column “{column}”.",
            problems,
        )
        yield note.format(count=problems, column=column)
