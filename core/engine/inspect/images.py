"""Report on images: what is in the data, what is wrong or odd with it; each image is checked once."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from core.base.errors import DataError, Fix, Problem
from core.base.formats import enumerated, paragraph, titled, with_note, without_stop
from core.base.language import _, isolated
from core.engine.data.alike import are_alike, pairs_alike
from core.engine.data.checks import CONTRADICTIONS, DUPLICATES, IN_BOTH, offered
from core.engine.data.findings import FILES_NAMED, ROWS_NAMED, FindingKind, in_order, left_out
from core.engine.data.image_files import (
    NAMED,
    READERS,
    UNREADABLE,
    Check,
    CheckedImage,
    Encoded,
    Images,
    ImageTransform,
    check_each,
    opened,
    size_of,
    thumbnail,
)
from core.engine.data.images import (
    FoundImages,
    class_names,
    find_eval_images,
    find_training_images,
    of_validation,
    refuse_eval_labels,
    split_images,
    training_transform,
)
from core.engine.data.known_checks import KnownChecks
from core.engine.inspect.draft import Progress, as_problem, table_fields
from core.jobs.inspect import QUICK_TRY, DataFinding, DataReport, FindingLevel, FoundFile, Seen
from core.options import RunOptions
from core.options.choices import ImageFit
from core.options.presets import IMAGE_FORMATS
from core.options.sources import parse_synthetic

SHOWN = 8
"""Images shown, of different labels first."""
REPORT_EVERY = 500
"""Images between two reports of progress."""
IMBALANCE = 10
"""A class with so many times as many images as another is reported."""

UNSEEN = frozenset(ending for ending, kind in IMAGE_FORMATS.items() if kind in ("AVIF", "HEIF"))
"""Endings of the formats that Qt can't read."""
MOST_PICTURES = 40

SINGLE = FindingKind(
    "class-of-one",
    FindingLevel.WARNING,
    _("{rows}: the only one with its label, so none is left for validation"),
)

SAME = FindingKind(DUPLICATES.code, FindingLevel.WARNING, _("{rows}: the same as another one"))
OTHER_LABEL = FindingKind(
    CONTRADICTIONS.code,
    FindingLevel.WARNING,
    _("{rows}: the same as another one, but with another label. The model can't learn both answers"),
    CONTRADICTIONS.advice,
)
OTHER_CLASS = replace(
    OTHER_LABEL, advice=_("Delete the one in the wrong folder; where opinions differ, both may stay")
)

Flagged = dict[FindingKind, list[tuple[int, str]]]
"""By kind the indices of images, each with the reason or an empty text."""


def inspect_images(options: RunOptions, progress: Progress = lambda _done, _total: None) -> DataReport:
    """Checks all images that a run with these options would train and evaluate on; the model isn't needed.

    Raises:
        DataError: There are no images at all. What is wrong with some is in the report.
    """
    data, synthetic = options.data, parse_synthetic(options.data.train)
    loaded = find_training_images(options)
    problems: list[Problem] = []
    held_out = loaded.eval
    try:
        held_out = find_eval_images(options, loaded)
    except DataError as error:
        held_out = None
        problems.append(as_problem("data.eval", error))
    sets = [loaded.train, *([held_out] if held_out else [])]
    known = KnownChecks(data.train)
    checks = [] if synthetic else check_all(sets, known.check, progress)
    known.save()
    can_skip = all(not checked or any(one.is_usable for one in checked) for checked in checks)
    is_skipped = data.skip_bad_rows and can_skip
    if is_skipped and checks:  # a class of which no image is left is none
        sets = [_without(images, checked) for images, checked in zip(sets, checks, strict=True)]
    problems += _label_problems(options, loaded, sets)
    can_split = not any(problem.path == "data.eval" for problem in problems)
    findings = list(findings_of(loaded.train, held_out, checks, skip=is_skipped))
    usable = replace(loaded, train=_without(loaded.train, checks[0]) if checks else loaded.train)
    train_rows, eval_rows = len(usable.train.names[: data.max_train_samples]), None
    if can_split:
        apart = held_out and (_without(held_out, checks[1]) if checks else held_out)
        chosen, rest = split_images(options, usable, apart)
        train_rows, eval_rows = len(chosen), len(rest)
        if checks:
            findings += _alike(usable.train, chosen, apart, rest, checks)
    notes = (*loaded.train.notes, *map(of_validation, held_out.notes if held_out else ()))
    findings += _not_square(checks, data.image_fit, data.image_size)
    if loaded.eval and not (data.eval or data.eval_split):
        note = _("{name} is the validation data unless you choose other data.").format(name=loaded.eval_name)
        notes = (*notes, note)
    of_table = table_fields(loaded.table) if loaded.table else {}
    first = len(set(usable.train.names[:QUICK_TRY]))
    return DataReport(
        first_labels=first,
        **{"rows": len(loaded.train), **of_table, "format": loaded.format},
        source=data.train,
        label_column=loaded.label_column,
        columns_by_role={"image": loaded.image_column or ""} if loaded.table else {},
        splits=loaded.splits,
        used=len(usable.train),
        labels=dict(Counter(usable.train.names).most_common(DataReport.MOST_LABELS)),
        seen=tuple(_first_seen(usable.train, training_transform(options))),
        train_rows=train_rows,
        eval_rows=eval_rows,
        problems=tuple(problems),
        findings=in_order(_with_pictures(offered(findings) if can_skip else findings)),
        notes=notes,
    )


def _without(images: Images, checked: Sequence[CheckedImage]) -> Images:
    """Returns the images that can be read: a run begins once the others are gone."""
    usable = [index for index, one in enumerate(checked) if one.is_usable]
    return images.at(usable) if checked else images


def _not_square(checks: Sequence[Sequence[CheckedImage]], fit: ImageFit, size: int) -> Iterator[DataFinding]:
    """Says that most images are squashed, and how they wouldn't be; cropping was chosen by the person."""
    shapes = [one.is_square for checked in checks for one in checked if one.is_usable]
    count = shapes.count(False)
    if fit is ImageFit.SQUASH and 2 * count > len(shapes):
        text = _(
            "{count:,} of {all:,} images are clearly not square (one side more than 10 % longer than the other) and "
            "are squashed to {size} × {size} pixels."
        )
        yield DataFinding(
            code="not-square",
            level=FindingLevel.WARNING,
            message=text.format(count=count, all=len(shapes), size=size),
            count=count,
            fixes=(Fix(_("Use only their middle instead"), {"data.image_fit": ImageFit.CROP.value}),),
        )


def _label_problems(options: RunOptions, found: FoundImages, sets: Sequence[Images]) -> Iterator[Problem]:
    """Yields what is wrong with the labels of the training images, and of validation images of their own."""
    train, *held_out = sets
    labels = tuple(set(train.names))
    try:
        labels = class_names(options, replace(found, train=train))
    except DataError as error:
        yield as_problem("data.train", error)
    for images in held_out:
        try:
            refuse_eval_labels(options, images, labels)
        except DataError as error:
            yield as_problem("data.eval", error)


ALIKE = FindingKind(
    "alike-in-both",
    FindingLevel.WARNING,
    _("{rows} for validation: the same as a training image, or nearly, as the next photo of a burst is"),
    _("On new images the model is likely to do worse than the validation says"),
)


def _alike(
    train: Images,
    chosen: Sequence[int],
    held_out: Images | None,
    rest: Sequence[int],
    checks: Sequence[Sequence[CheckedImage]],
) -> Iterator[DataFinding]:
    """Yields a finding with the images for validation that look like one that is trained on."""
    usable = [[one for one in checked if one.is_usable] for checked in checks]
    of_train = [usable[0][place] for place in chosen] if usable[0] else []
    source, checked = (held_out, usable[1]) if held_out else (train, usable[0])
    of_rest = [checked[place] for place in rest] if checked else []
    known = {one.ends: other for other, one in enumerate(of_train)}
    same = {
        place: other
        for place, one in enumerate(of_rest)
        if (other := known.get(one.ends)) is not None
        and _content(source.encoded(rest[place])) == _content(train.encoded(chosen[other]))
    }
    looks = [b"" if place in same else one.look for place, one in enumerate(of_rest)]
    alike = {
        place: other
        for place, other in pairs_alike(looks, [one.look for one in of_train])
        if _are_alike(source.encoded(rest[place]), train.encoded(chosen[other]))
    }
    found_in = alike if held_out else same | alike  # equal ones of other data have a finding of their own
    pairs = [(rest[place], chosen[other]) for place, other in sorted(found_in.items())]
    found = [FoundFile(source.path(place), "", train.path(other)) for place, other in pairs]
    if found:
        yield DataFinding(
            code=ALIKE.code,
            level=ALIKE.level,
            message=paragraph(ALIKE.message(len(found), "image")),
            count=len(found),
            files=tuple(file for file in found[:FILES_NAMED] if file.path),
            rows=()
            if source.rows is None
            else tuple(source.number(place) for place, _other in pairs[:ROWS_NAMED]),
            row_word=source.row_word,
            fixes=ALIKE.fixes,
            in_eval=True,
        )


def _content(image: Encoded) -> bytes:
    return image.read_bytes() if isinstance(image, Path) else bytes(image)


def _are_alike(one: Encoded, other: Encoded) -> bool:
    with opened(one) as first, opened(other) as second:
        return are_alike(first, second)


def _named(images: Images, index: int) -> str:
    """Returns the folder and file of an image, or its row in a table."""
    path = images.path(index)
    return str(Path(*Path(path).parts[-2:])) if path and images.rows is None else images.where(index)


def _first_seen(images: Images, transform: ImageTransform) -> Iterator[Seen]:
    """Yields the first image of each label, then others; those that can't be read are findings."""
    first = {name: index for index, name in reversed(list(enumerate(images.names)))}
    order = dict.fromkeys([*sorted(first.values()), *range(len(images))][: 4 * SHOWN])
    yield from islice(filter(None, (_seen(images, index, transform) for index in order)), SHOWN)


def _seen(images: Images, index: int, transform: ImageTransform) -> Seen | None:
    try:
        seen, original = transform.preview(images.encoded(index), index)
    except UNREADABLE:
        return None
    return Seen(
        row=images.number(index),
        label=images.names[index],
        images=seen,
        original=original,
        file=images.path(index),
        size=size_of(images.encoded(index)),
    )


def check_all(sets: Sequence[Images], check: Check, progress: Progress) -> list[list[CheckedImage]]:
    """Checks every image of the sets."""
    checks: list[list[CheckedImage]] = []
    total, done = sum(map(len, sets)), 0
    for images in sets:
        checks.append([])
        for checked in check_each(images, check):
            checks[-1].append(checked)
            done += 1
            if done % REPORT_EVERY == 0:
                progress(done, total)
    progress(total, total)
    return checks


def findings_of(
    train: Images,
    held_out: Images | None,
    checks: Sequence[Sequence[CheckedImage]],
    *,
    skip: bool = False,
) -> Iterator[DataFinding]:
    """Yields what the checks of all images found.

    Args:
        held_out: Evaluation data of its own.
        checks: Of each of the two; empty for images that need none.
        skip: Whether images that can't be read are left out.
    """
    sets = [images for images in (train, held_out) if images is not None][: len(checks)]
    flagged: list[Flagged] = [defaultdict(list) for _images in sets]
    for kinds, checked in zip(flagged, checks, strict=True):
        for index, one in enumerate(checked):
            for kind in one.findings:
                kinds[kind].append((index, "" if one.reason in kind.says else one.reason))
    if sets:
        _find_equal(sets, [np.array([one.ends for one in checked], np.uint64) for checked in checks], flagged)
        _check_classes(train, flagged[0])
    for images, kinds in zip(sets, flagged, strict=True):
        for finding in (*images.others, *(_finding(kind, images, places) for kind, places in kinds.items())):
            told = _of_evaluation(finding) if images is held_out else finding
            yield left_out(told) if skip else told
    if sets:
        yield from _uneven_classes(train)


def _with_pictures(findings: Sequence[DataFinding]) -> list[DataFinding]:
    """Adds small pictures of the files that Qt can't read, of the first ones only: each is decoded once more."""
    files = [file for finding in findings for file in finding.files]
    named = dict.fromkeys(path for file in files for path in (file.path, file.like))
    unseen = [Path(path) for path in named if Path(path).suffix.lower() in UNSEEN][:MOST_PICTURES]
    with ThreadPoolExecutor(READERS) as pool:
        pictures = dict(zip(map(str, unseen), pool.map(thumbnail, unseen), strict=True))

    def shown(file: FoundFile) -> FoundFile:
        picture, like = (pictures.get(path, b"") for path in (file.path, file.like))
        return msgspec.structs.replace(file, picture=picture, like_picture=like)

    return [
        msgspec.structs.replace(finding, files=tuple(map(shown, finding.files))) if finding.files else finding
        for finding in findings
    ]


def _find_equal(sets: Sequence[Images], ends: Sequence[Any], flagged: Sequence[Flagged]) -> None:
    """Finds images that are the same as an earlier one; only those are read whole that share size and ends."""
    distinct, counts = np.unique(np.concatenate(ends), return_counts=True)
    shared = distinct[(counts > 1) & (distinct > 0)]
    first: dict[bytes, tuple[Images, int]] = {}
    for images, own_ends, kinds in zip(sets, ends, flagged, strict=True):
        for index in np.flatnonzero(np.isin(own_ends, shared)).tolist():
            image = images.encoded(index)
            digest = hashlib.blake2b(_content(image), digest_size=16).digest()
            other, place = first.setdefault(digest, (images, index))
            same = _("the same as {place}").format(place=_named(other, place))
            if other is not images:
                kinds[IN_BOTH].append((index, ""))
            elif place != index:
                contradiction = OTHER_CLASS if images.rows is None else OTHER_LABEL
                is_same_class = images.names[place] == images.names[index]
                kinds[SAME if is_same_class else contradiction].append((index, same))


def _check_classes(train: Images, flagged: Flagged) -> None:
    counts = Counter(train.names)
    if len(counts) > 1:  # one class only is a problem of the data as a whole
        for index, name in enumerate(train.names):
            if counts[name] == 1:
                flagged[SINGLE].append((index, _("class “{name}”").format(name=isolated(name))))


def _uneven_classes(train: Images) -> Iterator[DataFinding]:
    counts = Counter(train.names).most_common()
    if not counts:
        return
    (most, many), (least, few) = counts[0], counts[-1]
    if many >= IMBALANCE * few and few > 1:
        yield DataFinding(
            code="classes-uneven",
            level=FindingLevel.WARNING,
            message=_(
                "“{least}” has only {few:,} images, “{most}” {many:,}: the model may seldom answer “{least}”."
            ).format(most=isolated(most), many=many, least=isolated(least), few=few),
            count=few,
        )


def _of_evaluation(finding: DataFinding) -> DataFinding:
    message = finding.message if finding.code == IN_BOTH.code else of_validation(finding.message)
    return msgspec.structs.replace(finding, message=message, in_eval=True)


def _finding(kind: FindingKind, images: Images, flagged: Sequence[tuple[int, str]]) -> DataFinding:
    """Returns a finding that names the first rows of a table, or else the first files."""
    names = []
    for index, reason in flagged[:NAMED]:
        name = _named(images, index)
        names.append(with_note(name, reason))
    listed = enumerated(names)
    if len(flagged) > NAMED:
        listed = _("{names} and {more:,} more").format(names=listed, more=len(flagged) - NAMED)
    message = paragraph(titled(without_stop(kind.message(len(flagged), "image")), listed))
    return DataFinding(
        code=kind.code,
        level=kind.level,
        message=message,
        count=len(flagged),
        files=tuple(
            FoundFile(path, reason) for index, reason in flagged[:FILES_NAMED] if (path := images.path(index))
        ),
        rows=()
        if images.rows is None
        else tuple(images.number(index) for index, _reason in flagged[:ROWS_NAMED]),
        row_word=images.row_word,
        fixes=kind.fixes,
    )
