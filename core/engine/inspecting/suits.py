"""Which task data is for, judged by what its columns hold; a person may well want another."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.choices import Task
from core.data_report import Column, ColumnKind
from core.engine.data.columns import as_text, describe, guess_columns
from core.engine.data.conversations.shapes import Shape, ShapeKind, find_shape
from core.engine.data.file_kinds import ENDINGS, ending, is_parquet
from core.engine.data.image_columns import holds_bytes, share_of_paths
from core.engine.data.parquet_rows import open_parquet
from core.engine.data.plain_text import is_plain_text
from core.engine.data.scores import guess_score_columns, holds_numbers
from core.engine.data.shards import read_files
from core.engine.data.splits import files_of, texts_of
from core.engine.data.tables import Table
from core.engine.data.tag_columns import guess_tag_columns
from core.engine.data.text_files import Tell, first_bytes, size_of
from core.engine.data.word_lists import is_list
from core.errors import DataError
from core.options import DataOptions
from core.sources import Scheme, scheme_of
from core.task_guess import find_task

FEW_ANSWERS = 20
"""So many different answers are labels rather than something to say."""
FEW_NUMBERS = 20
"""So many different numbers are labels rather than something to estimate."""
IMAGES_SHARE = 0.5
LOOKED_AT = 50
IDX = b"\x00\x00\x08"
"""What files of the kind MNIST comes in begin with: two zeros, and the type of bytes."""


@dataclass(frozen=True)
class Suited:
    """The task that data is most likely for, None where nothing tells; and the table, where it was read for that."""

    task: Task | None
    table: Table | None = None


def find_suiting_task(data: DataOptions, progress: Tell | None = None) -> Suited:
    """The task that training data is most likely for.

    Raises:
        DataError: It can't be read.
    """
    source = data.train
    if scheme_of(source) not in (None, Scheme.HUB):
        return Suited(find_task(source))
    path = Path(source)
    if scheme_of(source) is None and path.is_dir():
        inside = (find_task(str(file)) for file in islice(path.iterdir(), LOOKED_AT) if file.is_file())
        if Task.IMAGE_CLASSIFICATION in (find_task(source), *inside):
            return Suited(Task.IMAGE_CLASSIFICATION)
        if texts_of(source, data.train_split) == (path,):
            return Suited(Task.CAUSAL_LM if is_plain_text(path) else None)
    files = files_of(source, data.train_split)
    if _holds_images(files[0]):
        return Suited(Task.IMAGE_CLASSIFICATION)
    if ending(files[0]) not in ENDINGS and is_plain_text(files[0]):
        return Suited(Task.CAUSAL_LM)
    table = read_files(files, progress)
    return Suited(suiting_table(table), table)


def _holds_images(path: Path) -> bool:
    """Whether a file is an image, or images are in it: IDX, or Parquet with bytes."""
    size_of(path)
    start = first_bytes(path)
    if start.startswith(IDX) or find_task(str(path)) is Task.IMAGE_CLASSIFICATION:
        return True
    return is_parquet(path, start) and any(
        holds_bytes(kind) for kind in open_parquet(path).schema_arrow.types
    )


def suiting_table(table: Table) -> Task | None:
    """The task that a table is most likely for."""
    columns = describe(table)
    if _shape(table, preference=True):
        return Task.PREFERENCE
    if _has_words(table):
        return Task.TOKEN_CLASSIFICATION
    shape = _shape(table, preference=False)
    if shape is not None and _is_said(shape, columns):
        return Task.CHAT
    if any(share_of_paths(table, column.name) > IMAGES_SHARE for column in columns):
        return Task.IMAGE_CLASSIFICATION
    return _of_texts(table, columns)


def _shape(table: Table, *, preference: bool) -> Shape | None:
    try:
        return find_shape(table, preference=preference)
    except DataError:
        return None


def _is_said(shape: Shape, columns: tuple[Column, ...]) -> bool:
    """Whether the answers are something to say, and not a few labels."""
    if shape.kind is ShapeKind.TEXT:
        return False
    if shape.kind is not ShapeKind.PROMPT:
        return True
    answers = next(column for column in columns if column.name == list(shape.columns.values())[1])
    return answers.kind is ColumnKind.TEXT and answers.distinct > FEW_ANSWERS


def _has_words(table: Table) -> bool:
    """Whether there are lists of words and of as many tags."""
    found = guess_tag_columns(table)
    if not found.text or found.label is None:
        return False
    for name in (found.text[0], found.label):
        is_written = all(text.strip().startswith("[") for text in _some(table, name))
        if not is_list(table.rows.schema.field(name).type) and not is_written:
            return False
    return True


def _some(table: Table, name: str) -> list[str]:
    texts = as_text(table.first(LOOKED_AT).rows[name]).to_pylist()
    return list(islice((text for text in texts if text), LOOKED_AT))


def _of_texts(table: Table, columns: tuple[Column, ...]) -> Task | None:
    kinds = {column.name: column for column in columns}
    scored, guess = guess_score_columns(table), guess_columns(table)
    if not guess.text:
        return None
    number, label = kinds.get(scored.label or ""), kinds.get(guess.label or "")
    has_number = number is not None and (
        number.kind is ColumnKind.NUMBER or holds_numbers(table, number.name)
    )
    if number is not None and has_number and scored.label == guess.label and _is_estimated(number):
        return Task.TEXT_REGRESSION
    if label is not None:
        return Task.TEXT_CLASSIFICATION
    return Task.TEXT_REGRESSION if has_number else Task.CAUSAL_LM


def _is_estimated(column: Column) -> bool:
    """Whether numbers are something to estimate: they have decimals, or there are many of them."""
    return column.distinct > FEW_NUMBERS or any("." in example for example in column.examples)
