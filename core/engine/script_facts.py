"""Finds out what a script has to be told of a run's data: which files, how they lie, which columns, which template.

Nothing is tokenized and no model is loaded.
"""

import os
from pathlib import Path
from typing import Any

from core.choices import Task
from core.engine.data import idx_images
from core.engine.data.columns import Guess, guess_columns
from core.engine.data.conversations.shapes import find_shape
from core.engine.data.conversations.spans import Writer
from core.engine.data.conversations.templates import set_template
from core.engine.data.how_read import DELIMITERS, ENCODINGS
from core.engine.data.image_sets import FoundImages, ImageFiles, LabelledImages
from core.engine.data.image_sources import Splits
from core.engine.data.images import find_eval_images, find_images
from core.engine.data.plain_text import PlainText
from core.engine.data.running_text import read_running, text_column
from core.engine.data.scores import guess_score_columns
from core.engine.data.shards import read_files
from core.engine.data.splits import HeldOut, files_of, header_asked, held_out_of, texts_of
from core.engine.data.tables import Table
from core.engine.data.tag_columns import guess_tag_columns, tag_names
from core.engine.models.image_models import find_image_model
from core.engine.models.text_models import load_tokenizer
from core.errors import DataError
from core.options import RunOptions
from core.script.facts import Conversations, Form, Images, Rows, ScriptFacts, Template
from core.sources import DIGITS, Scheme, parse_synthetic

FORMS = {"JSON": Form.JSON, "JSONL": Form.JSON_LINES, "Parquet": Form.PARQUET, "CoNLL": Form.CONLL}
"""By what `Table.format` calls them; all others are delimited."""

Files = tuple[Path, ...]


def script_facts(options: RunOptions) -> ScriptFacts:
    """Look at the data of a run.

    Raises:
        DataError: It is gone, or of a kind that no script is written for.
        ModelError: The model's tokenizer or config can't be read.
    """
    if options.task.reads_images:
        return _of_images(options)
    if parse_synthetic(options.data.train):
        return ScriptFacts(conversations=None)
    if options.task is Task.CAUSAL_LM:
        return _of_running_text(options)
    return _of_rows(options)


def _of_rows(options: RunOptions) -> ScriptFacts:
    data = options.data
    files = files_of(data.train, data.train_split)
    table = read_files(files, header=header_asked(data.header))
    apart = held_out_of(data)
    eval_rows = _eval_rows(apart, files_of(apart.source, apart.split, apart.option)) if apart else None
    if options.task.reads_conversations:
        return ScriptFacts(
            rows=_rows(files, table), eval_rows=eval_rows, conversations=_conversations(options, table)
        )
    found = _guess(options, table)
    return ScriptFacts(
        rows=_rows(files, table, found.label or ""),
        eval_rows=eval_rows,
        text_columns=found.text,
        label_column=found.label or "",
    )


def _guess(options: RunOptions, table: Table) -> Guess:
    guesses = {Task.TEXT_REGRESSION: guess_score_columns, Task.TOKEN_CLASSIFICATION: guess_tag_columns}
    guess = guesses.get(options.task, guess_columns)
    return guess(table, options.data.text_columns, options.data.label_column)


def _conversations(options: RunOptions, table: Table) -> Conversations:
    shape = find_shape(table, preference=options.task is Task.PREFERENCE, columns=options.data.columns)
    tokenizer = load_tokenizer(options.model.source)
    own = tokenizer.chat_template
    set_template(tokenizer, options.data.chat_template)
    is_marked = Writer(tokenizer).has_markers()
    return Conversations(
        columns={str(role): name for role, name in shape.columns.items()},
        template=Template.MARKED if is_marked else Template.PLAIN,
        chatml="" if tokenizer.chat_template == own else tokenizer.chat_template,
    )


def _of_running_text(options: RunOptions) -> ScriptFacts:
    data = options.data
    files = texts_of(data.train, data.train_split)
    found = read_running(files, data.text_columns)
    column = text_column(found, data.text_columns) if isinstance(found, Table) else ""
    apart = held_out_of(data)
    eval_rows = None
    if apart:
        eval_files = texts_of(apart.source, apart.split, apart.option)
        eval_rows = _running(eval_files, read_running(eval_files, data.text_columns))
    return ScriptFacts(
        rows=_running(files, found), eval_rows=eval_rows, text_columns=(column,) if column else ()
    )


def _running(files: Files, found: Any) -> Rows:
    if isinstance(found, PlainText):
        paths = tuple(str(document.path) for document in found.documents)
        return Rows(files=paths, form=Form.TEXT, **_encoding(found.reading))
    return _rows(files, found)


def _eval_rows(apart: HeldOut, files: Files) -> Rows:
    return _rows(files, read_files(files, header=apart.header))


def _rows(files: Files, table: Table, label: str = "") -> Rows:
    reading = table.reading
    by_word = {word: delimiter for delimiter, word in DELIMITERS.items()}
    return Rows(
        files=tuple(map(str, files)),
        form=FORMS.get(table.format, Form.DELIMITED),
        **_encoding(reading),
        delimiter=by_word.get(reading.get("delimiter", ""), ""),
        is_quoted=reading.get("quoting") == "double quotes",
        has_header=reading.get("header") != "none",
        columns=table.columns,
        numbers=tag_names(table, label) if label in table.columns else (),
    )


def _encoding(reading: Any) -> dict[str, Any]:
    by_word = {word: encoding for encoding, word in reversed(ENCODINGS.items())}
    told = reading.get("encoding", "UTF-8").removesuffix(" with a byte order mark")
    return {"encoding": by_word.get(told, told), "is_packed": reading.get("compression") == "gzip"}


def _of_images(options: RunOptions) -> ScriptFacts:
    model = find_image_model(options)
    source = options.data.train
    if source == DIGITS or parse_synthetic(source):
        return ScriptFacts(mean=model.mean, std=model.std)
    splits = Splits(options.data.train_split, options.data.eval_split)
    found = find_images(source, splits=splits, open_all=False)
    train, held_out = _places(Path(source), found)
    if options.data.eval:
        held_out = _place_of_eval(options)
    return ScriptFacts(images=train, eval_images=held_out, mean=model.mean, std=model.std)


def _place_of_eval(options: RunOptions) -> Images:
    source = options.data.eval or ""
    path = Path(source)
    if path.exists() and (idx_images.is_idx(path) if path.is_file() else idx_images.folder_has_idx(path)):
        train, other = idx_images.pairs_at(path)
        return _of_pair(other or train)
    return _class_folders(find_eval_images(source, split=options.data.eval_split), source)


def _places(path: Path, found: FoundImages) -> tuple[Images, Images | None]:
    if found.format == "IDX":
        train, other = idx_images.pairs_at(path)
        return _of_pair(train), _of_pair(other) if other else None
    held_out = _class_folders(found.eval, str(path)) if found.eval else None
    return _class_folders(found.train, str(path)), held_out


def _of_pair(pair: idx_images.Pair) -> Images:
    return Images(files=(str(pair.images), str(pair.labels)))


def _class_folders(found: LabelledImages, source: str) -> Images:
    """The folder that holds the folders of the classes.

    Raises:
        DataError: The images come from a table.
    """
    is_hub = Scheme.HUB.name_of(source) is not None
    if is_hub or not isinstance(found, ImageFiles) or found.rows is not None:
        raise DataError(
            "No script is written for images in a table",
            f"{source}: scripts read class folders, IDX files, and the digits that come with Hone.",
        )
    common = Path(os.path.commonpath([path.parent for path in found.paths]))
    names = set(found.names)
    is_class = len(names) == 1 and common.name in names
    return Images(folder=str(common.parent if is_class else common))
