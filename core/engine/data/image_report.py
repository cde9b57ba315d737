"""What a person is told of images before a run: how many of which label, what is wrong, some as the model sees them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from core.data_report import DataReport, Seen
from core.engine.data.image_checks import Progress, check_images
from core.engine.data.image_preview import preview
from core.engine.data.image_sets import FoundImages, LabelledImages
from core.engine.data.image_sources import Splits
from core.engine.data.image_transform import ImageTransform
from core.engine.data.images import find_images
from core.engine.data.labels import HOLD_OUT_INSTEAD, in_order, indices, refuse_single
from core.engine.data.split import stratified_split
from core.errors import DataError, Problem
from core.options import RunOptions
from core.sources import parse_synthetic

MOST_LABELS = 200
SHOWN = 8
"""Images shown, of different labels first."""


def report_on_images(options: RunOptions, progress: Progress = lambda _done, _total: None) -> DataReport:
    """Look at all images that a run with these options would train and evaluate on.

    Args:
        options: What is asked; of the model nothing is needed.
        progress: Hears how many images have been looked at.

    Raises:
        DataError: There are no images at all. What is wrong with some is in the answer.
    """
    data = options.data
    splits = Splits(data.train_split, data.eval_split)
    columns = (data.image_column, data.label_column)
    found = find_images(data.train, options.training.seed, *columns, splits=splits, open_all=False)
    held_out = _held_out(options, found)
    random = parse_synthetic(data.train)
    problems = () if random else tuple(_problems(options, found))
    stored = None if held_out.problem else held_out.images
    findings = () if random else check_images(found.train, stored, progress)
    train_rows, eval_rows = _rows(options, found, held_out)
    return DataReport(
        source=data.train,
        format=found.format,
        rows=len(found.train.names),
        columns=found.columns,
        preview=found.preview,
        preview_rows=found.preview_rows,
        label_column=found.label_column,
        columns_by_role={"image": found.image_column} if found.image_column else {},
        splits=found.splits,
        labels=dict(Counter(found.train.names).most_common(MOST_LABELS)),
        seen=tuple(_seen(found.train, ImageTransform(random[1] if random else data.image_size))),
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=(*problems, *((held_out.problem,) if held_out.problem else ())),
        findings=findings,
        notes=(*found.notes, *_eval_note(options, found)),
    )


@dataclass(frozen=True)
class _HeldOut:
    """Images to evaluate on, where there are any of their own, or what would stop a run there."""

    images: LabelledImages | None = None
    problem: Problem | None = None


def _held_out(options: RunOptions, found: FoundImages) -> _HeldOut:
    data = options.data
    images = found.eval
    try:
        if data.eval:
            used = (found.image_column, found.label_column)
            splits = Splits(data.eval_split)
            other = find_images(data.eval, options.training.seed, *used, splits=splits, open_all=False)
            images = other.eval or other.train
        if images is not None:
            fixes = (HOLD_OUT_INSTEAD,) if data.eval else ()
            known = in_order(found.train.names[: data.max_train_samples])
            indices(images.names[: data.max_eval_samples], known, images.where, fixes)
    except DataError as error:
        return _HeldOut(images, _as_problem("data.eval", error))
    return _HeldOut(images)


def _problems(options: RunOptions, found: FoundImages) -> Iterator[Problem]:
    names = found.train.names[: options.data.max_train_samples]
    try:
        refuse_single(in_order(names), Path(options.data.train).name)
    except DataError as error:
        yield _as_problem("data.train", error)


def _rows(options: RunOptions, found: FoundImages, held_out: _HeldOut) -> tuple[int, int | None]:
    """How many images are trained and evaluated on; None where evaluation can't be."""
    data = options.data
    names = found.train.names[: data.max_train_samples]
    if parse_synthetic(data.train):
        return len(names), 0
    if held_out.problem:
        return len(names), None
    if held_out.images is not None:
        return len(names), len(held_out.images.names[: data.max_eval_samples])
    numbers = {name: number for number, name in enumerate(in_order(names))}
    train, rest = stratified_split(
        [numbers[name] for name in names], data.eval_fraction, options.training.seed
    )
    return len(train), len(rest[: data.max_eval_samples])


def _seen(images: LabelledImages, transform: ImageTransform) -> Iterator[Seen]:
    """The first image of each label, then others; those that can't be read are told elsewhere."""
    first = {name: index for index, name in reversed(list(enumerate(images.names)))}
    order = list(dict.fromkeys([*sorted(first.values()), *range(len(images.names))][: 4 * SHOWN]))
    yield from islice(_readable(images, order, transform), SHOWN)


def _readable(images: LabelledImages, order: list[int], transform: ImageTransform) -> Iterator[Seen]:
    rows = getattr(images, "rows", None)
    for index in order:
        try:
            shown = preview(images, index, transform)
        except DataError:
            continue
        yield Seen(
            row=int(rows.numbers[index]) if rows else index + 1,
            label=images.names[index],
            image=shown.seen,
            original=shown.original,
        )


def _eval_note(options: RunOptions, found: FoundImages) -> tuple[str, ...]:
    if found.eval is None or options.data.eval or options.data.eval_split:
        return ()
    return (f"{found.eval_name} is used for evaluation unless you choose other data.",)


def _as_problem(path: str, error: DataError) -> Problem:
    return Problem(path, f"{error.title}. {error.detail}", error.fixes)
