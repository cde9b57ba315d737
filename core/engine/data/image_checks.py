"""What is wrong or odd with images, found before a run begins, all of it at once.

Each image is looked at once, a few at a time; of a million, some bytes each are kept.
"""

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

import msgspec
import numpy as np

from core.base.errors import DataError, Fix, Problem
from core.engine.data.image_files import (
    Encoded,
    EncodedImages,
    Fault,
    FoundImages,
    ImageFiles,
    ImageTransform,
    LabelledImages,
    Look,
    Trait,
    digest,
    look,
    looked_at,
)
from core.engine.data.images import Splits, find_images, preview
from core.engine.data.splits import HOLD_OUT_INSTEAD, indices, refuse_single, stratified_split
from core.engine.data.splits import in_order as splits_in_order
from core.engine.data.text_files import listed
from core.options import RunOptions
from core.options.sources import parse_synthetic
from core.services.inspect import ROWS_NAMED, DataReport, Finding, FindingKind, FindingLevel, Seen, in_order

# --- What is wrong or odd with images, found before a run begins, all of it at once


NAMED = 5
"""Images that a finding names."""
TOLD_EVERY = 500
"""Images between two words on progress."""
IMBALANCE = 10
"""A class that has so many times as many images as another is told."""

Progress = Callable[[int, int], None]
"""Hears how many images have been looked at, and of how many."""

REPLACE = "Remove or replace these images"
FAULTS = {
    Fault.MISSING: FindingKind(
        "image-missing", FindingLevel.PROBLEM, "{rows} {are} not there", "Mend the paths"
    ),
    Fault.EMPTY: FindingKind(
        "image-empty", FindingLevel.PROBLEM, "{rows} {have} no content (0 bytes)", REPLACE
    ),
    Fault.NO_IMAGE: FindingKind(
        "not-an-image", FindingLevel.PROBLEM, "{rows} {are} of no format that can be read", REPLACE
    ),
    Fault.TOO_LARGE: FindingKind(
        "image-too-large",
        FindingLevel.PROBLEM,
        "{rows} {have} too many pixels to be decoded safely",
        "Shrink them",
    ),
    Fault.DAMAGED: FindingKind(
        "image-damaged", FindingLevel.PROBLEM, "{rows} {are} damaged or cut short", REPLACE
    ),
}
TRAITS = {
    Trait.ANIMATED: FindingKind(
        "image-animated", FindingLevel.WARNING, "{rows} {have} several frames; only the first is used"
    ),
    Trait.TRANSPARENT: FindingKind(
        "image-transparent",
        FindingLevel.WARNING,
        "{rows} {have} transparency, which is left out: the colours saved beneath it are seen",
        "Look at the preview; where the background is wrong, save the images without transparency",
    ),
}
REPEATED = FindingKind(
    "image-repeated", FindingLevel.WARNING, "{rows} {are} the same as an earlier one, with the same label"
)
CONTRADICTED = FindingKind(
    "image-contradicted",
    FindingLevel.WARNING,
    "{rows} {are} the same as an earlier one, but with another label: one of the two must be wrong",
    "Decide which label is right",
)
LEAKED = FindingKind(
    "image-in-both",
    FindingLevel.WARNING,
    "{rows} of the evaluation data {are} trained on, too: the result will look better than it is",
    "Remove them from one of the two",
)
SINGLE = FindingKind(
    "class-of-one",
    FindingLevel.WARNING,
    "{rows} {are} alone in a class, so that nothing of it can be held out",
)
UNEVEN = FindingKind(
    "classes-uneven", FindingLevel.WARNING, "One class has many times as many images as another"
)


@dataclass
class _Seen:
    """What is kept of the images of one source: what was found about some, and a number for each."""

    images: LabelledImages
    offset: int = 0
    marked: dict[FindingKind, list[int]] = field(default_factory=lambda: defaultdict(list))
    reasons: dict[FindingKind, str] = field(default_factory=dict)
    ends: "array[int]" = field(default_factory=lambda: array("Q"))

    def note(self, index: int, found: Look) -> None:
        self.ends.append(found.ends)
        if found.fault is not None:
            self.mark(FAULTS[found.fault], index, found.reason)
        for trait in found.traits:
            self.mark(TRAITS[trait], index)

    def mark(self, kind: FindingKind, index: int, reason: str = "") -> None:
        self.marked[kind].append(index)
        self.reasons.setdefault(kind, reason)

    def findings(self) -> Iterator[Finding]:
        for kind, marked in self.marked.items():
            yield _finding(kind, self.images, marked, self.reasons[kind])


def check_images(
    train: LabelledImages,
    held_out: LabelledImages | None = None,
    progress: Progress = lambda _done, _total: None,
) -> tuple[Finding, ...]:
    """Look at every image that is stored as a file or in a table; pixels in memory can't be damaged.

    Args:
        train: From `find_images(..., open_all=False)`.
        held_out: Evaluation data, if there is any of its own.
        progress: Hears of it now and then, in this thread.
    """
    seen = [_Seen(images) for images in (train, held_out) if images is not None]
    total = sum(len(part.images.names) for part in seen)
    done = 0
    for part in seen:
        if isinstance(part.images, EncodedImages):
            for index, found in enumerate(looked_at(part.images.each(), look)):
                part.note(index, found)
                done += 1
                if done % TOLD_EVERY == 0:
                    progress(done, total)
    _mark_equal(seen)
    progress(total, total)
    classes = tuple(_class_findings(train))
    told = chain.from_iterable(_told(part, is_eval=part.images is held_out) for part in seen)
    return in_order([*told, *classes])


def _told(part: _Seen, *, is_eval: bool) -> Iterator[Finding]:
    """What was found in one source; of the evaluation data it says so."""
    for found in part.findings():
        says_so = is_eval and found.code != LEAKED.code
        message = f"Evaluation data: {found.message}" if says_so else found.message
        yield msgspec.structs.replace(found, message=message, in_eval=is_eval)


def _mark_equal(seen: Sequence[_Seen]) -> None:
    """Mark images that are the same as an earlier one, those of the evaluation data as trained on."""
    first: dict[bytes, tuple[_Seen, int]] = {}
    for part, index, image in _suspects(seen):
        content = digest(image)
        earlier = first.setdefault(content, (part, index)) if content else (part, index)
        if earlier == (part, index):
            continue
        other, place = earlier
        if other is not part:
            part.mark(LEAKED, index)
        elif other.images.names[place] == part.images.names[index]:
            part.mark(REPEATED, index, f"the same as {other.images.where(place)}")
        else:
            part.mark(CONTRADICTED, index, f"the same as {other.images.where(place)}")


def _suspects(seen: Sequence[_Seen]) -> Iterator[tuple[_Seen, int, Encoded]]:
    """Images whose beginning, end and size another one shares, in order; few where none is the same."""
    numbers = np.concatenate([np.frombuffer(part.ends, np.uint64) for part in seen])
    distinct, counts = np.unique(numbers, return_counts=True)
    shared = distinct[(counts > 1) & (distinct > 0)]
    for part in seen:
        if not isinstance(part.images, EncodedImages):
            continue
        wanted = np.isin(np.frombuffer(part.ends, np.uint64), shared)
        if not wanted.any():
            continue
        for index, image in enumerate(part.images.each()):
            if wanted[index]:
                yield part, index, image


def _class_findings(train: LabelledImages) -> Iterator[Finding]:
    counts = Counter(train.names)
    if len(counts) < 2:
        return  # told as a problem of the data as a whole
    singles = [name for name, count in counts.items() if count == 1]
    if singles:
        chosen = set(islice(singles, ROWS_NAMED))
        places = [index for index, name in enumerate(train.names) if counts[name] == 1 and name in chosen]
        yield _finding(SINGLE, train, places, f"class {listed(singles)}", len(singles))
    (most, many), (least, few) = counts.most_common()[0], counts.most_common()[-1]
    if many >= IMBALANCE * few and few > 1:
        message = f"“{most}” has {many:,} images, “{least}” {few:,}: the model may seldom answer “{least}”."
        yield Finding(code=UNEVEN.code, level=UNEVEN.level, message=message, count=many)


def _finding(
    kind: FindingKind, images: LabelledImages, indices: Sequence[int], reason: str, count: int = 0
) -> Finding:
    """A finding that names the rows of a table, or else the files."""
    count = count or len(indices)
    rows = _row_numbers(images, indices)
    shown = [_name(images, index) for index in indices[:NAMED]]
    more = f" and {count - len(shown):,} more" if count > len(shown) else ""
    because = f" ({reason})" if reason else ""
    return Finding(
        code=kind.code,
        level=kind.level,
        message=f"{kind.message(count, 'image')}: {shown[0]}{because}{_and(shown[1:])}{more}.",
        count=count,
        rows=rows,
        row_word=_row_word(images),
        fixes=tuple(Fix(fix.label) for fix in kind.fixes),
    )


def _row_numbers(images: LabelledImages, indices: Sequence[int]) -> tuple[int, ...]:
    """Numbers in the table that names the images; empty for files in folders."""
    rows = getattr(images, "rows", None)
    return tuple(int(rows.numbers[index]) for index in indices[:ROWS_NAMED]) if rows else ()


def _row_word(images: LabelledImages) -> str:
    rows = getattr(images, "rows", None)
    return rows.word if rows else "image"


def _name(images: LabelledImages, index: int) -> str:
    """The last two parts of a file's path, or the row."""
    if isinstance(images, ImageFiles):
        return str(Path(*images.paths[index].parts[-2:]))
    return images.where(index)


def _and(names: Sequence[str]) -> str:
    return "".join(f", {name}" for name in names)


# --- What a person is told of images before a run: how many of which label, what is wrong


MOST_LABELS = 200
SHOWN_IMAGES = 8
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
    train_rows, eval_rows = _row_counts(options, found, held_out)
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
            known = splits_in_order(found.train.names[: data.max_train_samples])
            indices(images.names[: data.max_eval_samples], known, images.where, fixes)
    except DataError as error:
        return _HeldOut(images, _as_problem("data.eval", error))
    return _HeldOut(images)


def _problems(options: RunOptions, found: FoundImages) -> Iterator[Problem]:
    names = found.train.names[: options.data.max_train_samples]
    try:
        refuse_single(splits_in_order(names), Path(options.data.train).name)
    except DataError as error:
        yield _as_problem("data.train", error)


def _row_counts(options: RunOptions, found: FoundImages, held_out: _HeldOut) -> tuple[int, int | None]:
    """How many images are trained and evaluated on; None where evaluation can't be."""
    data = options.data
    names = found.train.names[: data.max_train_samples]
    if parse_synthetic(data.train):
        return len(names), 0
    if held_out.problem:
        return len(names), None
    if held_out.images is not None:
        return len(names), len(held_out.images.names[: data.max_eval_samples])
    numbers = {name: number for number, name in enumerate(splits_in_order(names))}
    train, rest = stratified_split(
        [numbers[name] for name in names], data.eval_fraction, options.training.seed
    )
    return len(train), len(rest[: data.max_eval_samples])


def _seen(images: LabelledImages, transform: ImageTransform) -> Iterator[Seen]:
    """The first image of each label, then others; those that can't be read are told elsewhere."""
    first = {name: index for index, name in reversed(list(enumerate(images.names)))}
    order = list(dict.fromkeys([*sorted(first.values()), *range(len(images.names))][: 4 * SHOWN_IMAGES]))
    yield from islice(_readable(images, order, transform), SHOWN_IMAGES)


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
