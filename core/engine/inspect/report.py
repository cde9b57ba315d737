"""Reports on data for any task: what is in it, and what a run would make of it."""

import contextlib
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa

from core.base.errors import DataError, Fix, Problem
from core.base.files import is_plain
from core.base.language import _
from core.engine.data.columns import (
    as_text,
    describe,
    guess_columns,
    guess_score_columns,
    guess_tag_columns,
    holds_bytes,
    holds_numbers,
    is_list,
    share_of_paths,
)
from core.engine.data.conversations import Shape, ShapeKind, change_to, find_shape, rating_of
from core.engine.data.running_text import is_plain_text
from core.engine.data.splits import files_of, splits_of, texts_of
from core.engine.data.tables import Table, open_parquet, read_files
from core.engine.data.text_files import (
    ENDINGS,
    ending,
    first_bytes,
    is_parquet,
    listed,
    size_of,
)
from core.engine.hub.search import SPLIT_NAMES, TRAIN, split_of
from core.engine.inspect.draft import Progress, Stages
from core.jobs.inspect import DataColumn, DataColumnKind, DataFinding, DataReport, FindingLevel
from core.options import RunOptions
from core.options.choices import ColumnRole, PreferenceLoss, Task
from core.options.data import DataOptions
from core.options.presets import JSON_ENDINGS, find_task
from core.options.sources import Scheme, parse_synthetic, scheme_of

EVALUATION_SPLITS = ("validation", "test")
READING = 0.4
"""The share of the time that reading the file takes."""


GUESSES_OF_LABELS = {
    Task.TEXT_CLASSIFICATION: guess_columns,
    Task.TEXT_REGRESSION: guess_score_columns,
}
JSON_EXAMPLES = {
    Task.CHAT: '{"instruction": "…", "output": "…"}',
    Task.PREFERENCE: '{"prompt": "…", "chosen": "…", "rejected": "…"}',
    Task.CAUSAL_LM: '{"text": "…"}',
    Task.TEXT_CLASSIFICATION: '{"text": "…", "label": "…"}',
    Task.TEXT_REGRESSION: '{"text": "…", "score": 0.5}',
    Task.TOKEN_CLASSIFICATION: '{"tokens": ["…", "…"], "ner_tags": ["O", "B-PER"]}',
}


def inspect(options: RunOptions, progress: Progress | None = None, *, any_task: bool = False) -> DataReport:
    """Reports on the training data of `options`, and on what it is evaluated on.

    Args:
        options: The options of a run; its model's tokenizer or image transform is enough.
        any_task: Report for the task that the data suits, in place of that of `options`.

    Raises:
        DataError: The source can't be read at all. What is wrong with its columns or rows is in the report.
    """
    stages, source = Stages(progress), options.data.train
    suited, _table = None, None  # holding the table keeps it from being read a second time
    try:
        suited, _table = find_suiting_task(options.data, stages.next(READING))
    except DataError:
        if any_task:
            raise
    task = suited if any_task and suited else options.task
    change = (change_to(suited),) if suited is not None and suited is not task else ()
    if change and suited is Task.PREFERENCE and _table is not None and _is_rated(_table):
        changes = {**change[0].changes, "training.preference_loss": PreferenceLoss.KTO.value}
        change = (msgspec.structs.replace(change[0], changes=changes),)

    def with_change(fixes: tuple[Fix, ...]) -> tuple[Fix, ...]:
        return (*change, *(fix for fix in fixes if fix not in change))

    try:
        report = _report(msgspec.structs.replace(options, task=task), stages)
    except DataError as error:
        detail, looks = error.detail, JSON_EXAMPLES.get(task)
        if looks and Path(source).suffix.lower() in JSON_ENDINGS:
            like = _("For “{task}” an example looks like this: {example}")
            detail = f"{detail}\n{like.format(task=task.label, example=looks)}"
        raise DataError(error.title, detail, with_change(error.fixes)) from error
    splits = report.splits
    if not splits:
        with contextlib.suppress(DataError):
            splits = splits_of(source)
        splits = splits if len(splits) > 1 else ()
    findings = (*report.findings, *_unused_split(splits, options.data, task))
    problems = tuple(
        Problem(problem.path, problem.message, with_change(problem.fixes)) for problem in report.problems
    )
    pipes = [] if task.reads_images else sorted(_special_tables(Path(source)))
    if pipes:
        note = _("Pipes, sockets and devices are never opened. Left out: {names}.")
        report = msgspec.structs.replace(report, notes=(*report.notes, note.format(names=listed(pipes))))
    if _table is not None and task.writes_text and suited in GUESSES_OF_LABELS:
        label = GUESSES_OF_LABELS[suited](_table).label
        if label not in (None, *report.columns_by_role.values(), *report.text_columns):
            note = _("The column “{label}” is not read: “{task}” learns from the texts alone.")
            note = note.format(label=label, task=task.label)
            report = msgspec.structs.replace(report, notes=(*report.notes, note))
    validation = Path(options.data.eval or options.data.eval_split or "").name
    reading = {"validation data": validation} if validation else {}
    return msgspec.structs.replace(
        report,
        suits=suited,
        splits=splits,
        findings=findings,
        problems=problems,
        reading=reading | report.reading,
    )


def _report(options: RunOptions, stages: Stages) -> DataReport:
    """Returns the report for the task of `options`; only its libraries are loaded."""
    task, random = options.task, parse_synthetic(options.data.train)
    if task.reads_images:
        from core.engine.inspect.images import inspect_images

        return inspect_images(options, stages.next(1.0))
    if random:
        return DataReport(source=options.data.train, format="synthetic", rows=random[0], train_rows=random[0])
    if task.reads_conversations:
        from core.engine.inspect.conversations import inspect_conversations

        return inspect_conversations(options, stages)
    from core.engine.inspect.texts import inspect_running_text, inspect_texts

    return (inspect_running_text if task is Task.CAUSAL_LM else inspect_texts)(options, stages)


def _special_tables(folder: Path) -> Iterator[str]:
    """Yields the names in a folder that look like tables and are pipes or devices, which `files_of` passes over."""
    with contextlib.suppress(OSError):
        yield from (path.name for path in folder.iterdir() if ending(path) in ENDINGS and not is_plain(path))


def _unused_split(splits: tuple[str, ...], data: DataOptions, task: Task) -> Iterator[DataFinding]:
    """Yields a warning if there is a split to evaluate on that isn't chosen."""
    unused = [name for name in EVALUATION_SPLITS if name in splits and name != data.train_split]
    if (
        unused and not data.eval and not data.eval_split and not task.reads_images
    ):  # images use it by themselves
        message = (
            _(
                "The split “{split}” isn't used. A fraction of the training data is used for validation "
                "instead."
            )
            if data.eval_fraction
            else _("The split “{split}” isn't used. Nothing is evaluated.")
        )
        yield DataFinding(
            code="unused-split",
            level=FindingLevel.WARNING,
            message=message.format(split=unused[0]),
            count=1,
            fixes=(
                Fix(
                    _("Use “{split}” as validation data").format(split=unused[0]),
                    {"data.eval_split": unused[0]},
                ),
            ),
        )
    elif not splits and not data.eval and (beside := _file_beside(Path(data.train))):
        yield DataFinding(
            code="unused-file",
            level=FindingLevel.WARNING,
            message=_("{name} is there, too, and not used.").format(name=beside.name),
            count=1,
            fixes=(Fix(_("Use it for validation"), {"data.eval": str(beside)}),),
        )


def _file_beside(train: Path) -> Path | None:
    """Returns the file with the validation or test data of a training file: `dev.tsv` beside `train.tsv`."""

    def other_words(name: str) -> list[str]:
        words = re.split(r"[^a-z]+", name.lower())
        return [word for word in words if not any(word in known for known in SPLIT_NAMES.values())]

    if not train.is_file() or split_of(train.name) != TRAIN:
        return None
    with contextlib.suppress(OSError):
        names = [path.name for path in islice(train.parent.iterdir(), MOST_BESIDE)]
        alike = {
            split_of(name): name for name in sorted(names) if other_words(name) == other_words(train.name)
        }
        return next(
            (train.with_name(alike[split]) for split in ("validation", "test") if split in alike), None
        )
    return None


MOST_BESIDE = 2000
"""Files that are looked at in the folder of the training data."""


# --- The task that data is most likely for, by what its columns hold


MOST_LABELS = 20
"""Up to so many different answers or numbers are labels rather than something to write or to estimate."""
IMAGES_SHARE = 0.5
CELLS_READ = 50
IDX = b"\x00\x00\x08"
"""The first bytes of IDX files, such as MNIST's: two zeros, and the type of bytes."""


def find_suiting_task(
    data: DataOptions, progress: Progress | None = None
) -> tuple[Task | None, Table | None]:
    """Returns the task that training data is most likely for, or None; and its table if it is one.

    Raises:
        DataError: It can't be read.
    """
    source = data.train
    if scheme_of(source) not in (None, Scheme.HUB):
        return find_task(source), None
    path = Path(source)
    if scheme_of(source) is None and path.is_dir():
        if find_task(source) is Task.IMAGE_CLASSIFICATION:
            return Task.IMAGE_CLASSIFICATION, None
        if texts_of(source, data.train_split) == (path,):
            return Task.CAUSAL_LM if is_plain_text(path) else None, None
    files = files_of(source, data.train_split)
    if _holds_images(files[0]):
        return Task.IMAGE_CLASSIFICATION, None
    if ending(files[0]) not in ENDINGS and is_plain_text(files[0]):
        return Task.CAUSAL_LM, None
    table = read_files(files, progress)
    return suiting_task(table), table


def _holds_images(path: Path) -> bool:
    """Returns whether a file is an image, or images are in it: IDX, or Parquet with bytes."""
    size_of(path)
    start = first_bytes(path)
    if start.startswith(IDX) or find_task(str(path)) is Task.IMAGE_CLASSIFICATION:
        return True
    return is_parquet(path, start) and any(map(holds_bytes, open_parquet(path).schema_arrow.types))


def suiting_task(table: Table) -> Task | None:
    columns = {column.name: column for column in describe(table)}
    if _shape(table, PreferenceLoss.DPO) or _is_rated(table):
        return Task.PREFERENCE
    if _has_words(table):
        return Task.TOKEN_CLASSIFICATION
    shape = _shape(table)
    if shape is not None and _is_conversation(shape, columns):
        return Task.CHAT
    if any(share_of_paths(table, name) > IMAGES_SHARE for name in columns):
        return Task.IMAGE_CLASSIFICATION
    scored, guess = guess_score_columns(table), guess_columns(table)
    if not guess.text:
        return None
    number, label = columns.get(scored.label or ""), columns.get(guess.label or "")
    if number and not (number.kind is DataColumnKind.NUMBER or holds_numbers(table, number.name)):
        number = None
    if number and scored.label == guess.label:  # estimated where there are decimals, or many numbers
        is_label = number.distinct <= MOST_LABELS and not any("." in example for example in number.examples)
    else:
        is_label = label is not None
    if is_label:
        return Task.TEXT_CLASSIFICATION
    return Task.TEXT_REGRESSION if number else Task.CAUSAL_LM


def _shape(table: Table, preference: PreferenceLoss | None = None) -> Shape | None:
    try:
        return find_shape(table, preference=preference)
    except DataError:
        return None


def _is_rated(table: Table) -> bool:
    """Returns whether texts have ratings: columns named as TRL names them, or answers beside true and false."""
    shape = _shape(table, PreferenceLoss.KTO)
    if shape is None or ColumnRole.RATING not in shape.columns:
        return False
    answer, rating = shape.columns.get(ColumnRole.ANSWER, ""), shape.columns[ColumnRole.RATING]
    first = table.first(CELLS_READ).rows
    is_sure = answer.lower() == "completion" or pa.types.is_boolean(first.schema.field(rating).type)
    values = first[rating].drop_null().to_pylist()
    return is_sure and all(rating_of(value) is not None for value in values)


def _is_conversation(shape: Shape, columns: dict[str, DataColumn]) -> bool:
    """Returns whether the answers of a shape are texts of their own, not a few labels."""
    if shape.kind is not ShapeKind.PROMPT:
        return shape.kind is not ShapeKind.TEXT
    answers = columns[list(shape.columns.values())[1]]
    return answers.kind is DataColumnKind.TEXT and answers.distinct > MOST_LABELS


def _has_words(table: Table) -> bool:
    """Returns whether there are lists of words and of as many tags."""
    guess = guess_tag_columns(table)
    if not guess.text or guess.label is None:
        return False
    first = table.first(CELLS_READ).rows
    return all(
        is_list(first.schema.field(name).type)
        or all(text.strip().startswith("[") for text in as_text(first[name]).to_pylist() if text)
        for name in (guess.text[0], guess.label)
    )
