"""Report on images: what is in the data, what is wrong or odd with it; each image is checked once."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from core.base.errors import DataError, Problem
from core.base.language import _
from core.engine.data.checks import CONTRADICTIONS, DUPLICATES, IN_BOTH
from core.engine.data.image_files import UNREADABLE, Images, ImageTransform, check_each
from core.engine.data.images import (
    class_names,
    find_eval_images,
    find_training_images,
    split_images,
    training_transform,
)
from core.engine.inspect.report import Progress, as_problem, table_fields
from core.options import RunOptions
from core.options.sources import parse_synthetic
from core.services.inspect import (
    QUICK_TRY,
    ROWS_NAMED,
    DataReport,
    Finding,
    FindingKind,
    FindingLevel,
    Seen,
    in_order,
)

NAMED = 5
"""Images that a finding names."""
SHOWN = 8
"""Images shown, of different labels first."""
REPORT_EVERY = 500
"""Images between two reports of progress."""
IMBALANCE = 10
"""A class with so many times as many images as another is reported."""

SINGLE = FindingKind(
    "class-of-one",
    FindingLevel.WARNING,
    _("{rows}: the only one of its label, which then has no validation example"),
)

Flagged = dict[FindingKind, list[tuple[int, str]]]
"""By kind the indices of images, each with the reason or an empty text."""


def inspect_images(options: RunOptions, progress: Progress = lambda _done, _total: None) -> DataReport:
    """Check all images that a run with these options would train and evaluate on; the model isn't needed.

    Raises:
        DataError: There are no images at all. What is wrong with some is in the report.
    """
    data, synthetic = options.data, parse_synthetic(options.data.train)
    loaded = find_training_images(options)
    problems: list[Problem] = []
    held_out, notes = loaded.eval, loaded.notes
    try:
        labels = class_names(options, loaded)
    except DataError as error:
        labels = tuple(set(loaded.train.names))
        problems.append(as_problem("data.train", error))
    can_split = True
    try:
        held_out = find_eval_images(options, loaded, labels)
    except DataError as error:
        held_out, can_split = None, False
        problems.append(as_problem("data.eval", error))
    findings, bad = ((), [[], []]) if synthetic else check_images(loaded.train, held_out, progress)
    usable = replace(loaded, train=_without(loaded.train, bad[0]))
    train_rows, eval_rows = len(usable.train.names[: data.max_train_samples]), None
    if can_split:
        train_rows, eval_rows = map(
            len, split_images(options, usable, held_out and _without(held_out, bad[1]))
        )
    if loaded.eval and not (data.eval or data.eval_split):
        note = _("{name} is the validation data unless you choose other data.").format(name=loaded.eval_name)
        notes = (*notes, note)
    of_table = table_fields(loaded.table) if loaded.table else {}
    first = len(set(loaded.train.names[:QUICK_TRY]))
    return DataReport(
        first_labels=first,
        **{**of_table, "format": loaded.format, "rows": len(loaded.train)},
        source=data.train,
        label_column=loaded.label_column,
        columns_by_role={"image": loaded.image_column or ""} if loaded.table else {},
        splits=loaded.splits,
        used=len(usable.train),
        labels=dict(Counter(usable.train.names).most_common(DataReport.MOST_LABELS)),
        seen=tuple(_first_seen(loaded.train, training_transform(options))),
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=tuple(problems),
        findings=findings,
        notes=notes,
    )


def _without(images: Images, bad: Sequence[int]) -> Images:
    """The images that can be read, to be counted: a run begins once the others are gone."""
    left_out = set(bad)
    return replace(images, names=[name for index, name in enumerate(images.names) if index not in left_out])


def _first_seen(images: Images, transform: ImageTransform) -> Iterator[Seen]:
    """The first image of each label, then others; those that can't be read are findings."""
    first = {name: index for index, name in reversed(list(enumerate(images.names)))}
    order = dict.fromkeys([*sorted(first.values()), *range(len(images))][: 4 * SHOWN])
    yield from islice(filter(None, (_seen(images, index, transform) for index in order)), SHOWN)


def _seen(images: Images, index: int, transform: ImageTransform) -> Seen | None:
    try:
        seen, original = transform.preview(images.encoded(index), index)
    except UNREADABLE:
        return None
    return Seen(row=images.number(index), label=images.names[index], images=seen, original=original)


def check_images(
    train: Images, held_out: Images | None = None, progress: Progress = lambda _done, _total: None
) -> tuple[tuple[Finding, ...], list[list[int]]]:
    """Check every image; 8 bytes of each are kept. Returns the findings, and the unusable images of each set.

    Args:
        held_out: Evaluation data of its own.
    """
    sets = [images for images in (train, held_out) if images is not None]
    flagged: list[Flagged] = [defaultdict(list) for _images in sets]
    ends: list[Any] = []
    bad: list[list[int]] = [[] for _images in sets]
    total, done = sum(map(len, sets)), 0
    for place, images in enumerate(sets):
        own_ends: Any = np.zeros(len(images), np.uint64)
        for index, checked in enumerate(check_each(images)):
            own_ends[index] = checked.ends
            if not checked.is_usable:
                bad[place].append(index)
            for kind in checked.findings:
                flagged[place][kind].append((index, checked.reason))
            done += 1
            if done % REPORT_EVERY == 0:
                progress(done, total)
        ends.append(own_ends)
    _find_equal(sets, ends, flagged)
    progress(total, total)
    _check_classes(train, flagged[0])
    findings = [
        _finding(kind, images, indices, in_eval=images is held_out)
        for images, kinds in zip(sets, flagged, strict=True)
        for kind, indices in kinds.items()
    ]
    return in_order([*findings, *_uneven_classes(train)]), bad


def _find_equal(sets: Sequence[Images], ends: Sequence[Any], flagged: Sequence[Flagged]) -> None:
    """Find images that are the same as an earlier one; only those are read whole that share size and ends."""
    distinct, counts = np.unique(np.concatenate(ends), return_counts=True)
    shared = distinct[(counts > 1) & (distinct > 0)]
    first: dict[bytes, tuple[Images, int]] = {}
    for images, own_ends, kinds in zip(sets, ends, flagged, strict=True):
        for index in np.flatnonzero(np.isin(own_ends, shared)).tolist():
            image = images.encoded(index)
            content = image.read_bytes() if isinstance(image, Path) else bytes(image)
            other, place = first.setdefault(
                hashlib.blake2b(content, digest_size=16).digest(), (images, index)
            )
            same = _("the same as {place}").format(place=other.where(place))
            if other is not images:
                kinds[IN_BOTH].append((index, ""))
            elif place != index:
                is_same_class = images.names[place] == images.names[index]
                kinds[DUPLICATES if is_same_class else CONTRADICTIONS].append((index, same))


def _check_classes(train: Images, flagged: Flagged) -> None:
    counts = Counter(train.names)
    if len(counts) > 1:  # one class only is a problem of the data as a whole
        for index, name in enumerate(train.names):
            if counts[name] == 1:
                flagged[SINGLE].append((index, _("class “{name}”").format(name=name)))


def _uneven_classes(train: Images) -> Iterator[Finding]:
    counts = Counter(train.names).most_common()
    if not counts:
        return
    (most, many), (least, few) = counts[0], counts[-1]
    if many >= IMBALANCE * few and few > 1:
        yield Finding(
            code="classes-uneven",
            level=FindingLevel.WARNING,
            message=_(
                "“{most}” has {many:,} images, “{least}” {few:,}: the model may seldom answer “{least}”."
            ).format(most=most, many=many, least=least, few=few),
            count=many,
        )


def _finding(
    kind: FindingKind, images: Images, flagged: Sequence[tuple[int, str]], *, in_eval: bool
) -> Finding:
    """A finding that names the first rows of a table, or else the first files."""
    names = []
    for index, reason in flagged[:NAMED]:
        path = images.encoded(index)
        name = images.where(index)
        if images.rows is None and isinstance(path, Path):
            name = str(Path(*path.parts[-2:]))
        names.append(f"{name} ({reason})" if reason else name)
    if len(flagged) > NAMED:
        names.append("…")
    message = f"{kind.message(len(flagged), 'image').rstrip('.')}: {', '.join(names)}."
    if in_eval and kind is not IN_BOTH:
        message = _("Validation data: {message}").format(message=message)
    return Finding(
        code=kind.code,
        level=kind.level,
        message=message,
        count=len(flagged),
        rows=()
        if images.rows is None
        else tuple(images.number(index) for index, _reason in flagged[:ROWS_NAMED]),
        row_word=images.row_word,
        fixes=kind.fixes,
        in_eval=in_eval,
    )
