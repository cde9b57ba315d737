"""What is in image data, what is wrong or odd with it, and what becomes of it: each image is checked once."""

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec
import numpy as np

from core.base.errors import DataError, Problem
from core.base.language import _
from core.engine.data.image_files import UNREADABLE, Images, ImageTransform, check_each
from core.engine.data.images import class_names, find_eval_images, find_training_images, split_images
from core.engine.data.text_files import listed
from core.engine.inspect.report import MOST_LABELS_SHOWN, Tell, about_table, as_problem
from core.options import RunOptions
from core.options.sources import parse_synthetic
from core.services.inspect import ROWS_NAMED, DataReport, Finding, FindingKind, FindingLevel, Seen, in_order

NAMED = 5
"""Images that a finding names."""
SHOWN = 8
"""Images shown, of different labels first."""
TELL_EVERY = 500
"""Images between two reports of progress."""
IMBALANCE = 10
"""A class with so many times as many images as another is reported."""

REPEATED = FindingKind(
    "image-repeated",
    FindingLevel.WARNING,
    _("{rows} {are} the same as an earlier one, with the same label"),
)
CONTRADICTED = FindingKind(
    "image-contradicted",
    FindingLevel.WARNING,
    _("{rows} {are} the same as an earlier one, but with another label: one of the two must be wrong"),
    _("Decide which label is right"),
)
LEAKED = FindingKind(
    "image-in-both",
    FindingLevel.WARNING,
    _("{rows} of the evaluation data {are} trained on, too: the result will look better than it is"),
    _("Remove them from one of the two"),
)
SINGLE = FindingKind(
    "class-of-one",
    FindingLevel.WARNING,
    _("{rows} {are} alone in a class, so that nothing of it can be held out"),
)


def inspect_images(options: RunOptions, progress: Tell = lambda _done, _total: None) -> DataReport:
    """Check all images that a run with these options would train and evaluate on.

    Args:
        options: The run's; the model isn't needed.
        progress: Called with how many images have been checked, and of how many.

    Raises:
        DataError: There are no images at all. What is wrong with some is in the report.
    """
    data, synthetic = options.data, parse_synthetic(options.data.train)
    found = find_training_images(options)
    problems: list[Problem] = []
    held_out, notes = found.eval, found.notes
    try:
        labels = class_names(options, found)
    except DataError as error:
        labels = tuple(set(found.train.names))
        problems.append(as_problem("data.train", error))
    try:
        held_out = find_eval_images(options, found, labels)
        train, evaluated = split_images(options, found, held_out)
        rows: tuple[int, int | None] = (len(train), len(evaluated))
    except DataError as error:
        held_out = None
        problems.append(as_problem("data.eval", error))
        rows = (len(found.train.names[: data.max_train_samples]), None)
    if found.eval and not (data.eval or data.eval_split):
        notes = (
            *notes,
            _("{eval_name} is used for evaluation unless you choose other data.").format(
                eval_name=found.eval_name
            ),
        )
    report = DataReport(
        source=data.train,
        format=found.format,
        rows=len(found.train),
        splits=found.splits,
        labels=dict(Counter(found.train.names).most_common(MOST_LABELS_SHOWN)),
        seen=tuple(_shown(found.train, ImageTransform(synthetic[1] if synthetic else data.image_size))),
        train_rows=rows[0],
        eval_rows=rows[1],
        problems=tuple(problems),
        findings=() if synthetic else check_images(found.train, held_out, progress),
        notes=notes,
    )
    if found.table is None:
        return report
    return msgspec.structs.replace(
        report,
        **{**about_table(found.table), "format": found.format, "rows": len(found.train)},
        label_column=found.label_column,
        columns_by_role={"image": found.image_column or ""},
    )


def _shown(images: Images, transform: ImageTransform) -> Iterator[Seen]:
    """The first image of each label, then others; those that can't be read are findings."""
    first = {name: index for index, name in reversed(list(enumerate(images.names)))}
    order = dict.fromkeys([*sorted(first.values()), *range(len(images))][: 4 * SHOWN])
    yield from islice(filter(None, (_seen(images, index, transform) for index in order)), SHOWN)


def _seen(images: Images, index: int, transform: ImageTransform) -> Seen | None:
    try:
        seen, original = transform.preview(images.encoded(index))
    except UNREADABLE:
        return None
    return Seen(row=images.number(index), label=images.names[index], image=seen, original=original)


@dataclass
class _Checked:
    """What was found in the images of one source: images by kind, with the reason of the first; `ends` of each."""

    images: Images
    found: dict[FindingKind, list[int]] = field(default_factory=lambda: defaultdict(list))
    reasons: dict[FindingKind, str] = field(default_factory=dict)
    ends: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, kind: FindingKind, index: int, reason: str = "") -> None:
        self.found[kind].append(index)
        self.reasons.setdefault(kind, reason)


def check_images(
    train: Images, held_out: Images | None = None, progress: Tell = lambda _done, _total: None
) -> tuple[Finding, ...]:
    """Check every image, all of them at once; of each some bytes are kept.

    Args:
        train: Those that are trained on.
        held_out: Evaluation data, if there is any of its own.
        progress: Called now and then, in this thread.
    """
    checked = [_Checked(images) for images in (train, held_out) if images is not None]
    total, done = sum(len(part.images) for part in checked), 0
    for part in checked:
        for index, found in enumerate(check_each(part.images)):
            part.ends.append(found.ends)
            for kind in found.findings:
                part.add(kind, index, found.reason)
            done += 1
            if done % TELL_EVERY == 0:
                progress(done, total)
    _find_equal(checked)
    progress(total, total)
    findings = [
        _finding(kind, part.images, indices, part.reasons[kind], in_eval=part.images is held_out)
        for part in checked
        for kind, indices in part.found.items()
    ]
    return in_order([*findings, *_class_findings(train)])


def _find_equal(checked: Sequence[_Checked]) -> None:
    """Add the images that are the same as an earlier one; only those are read whole that share size and ends."""
    numbers = np.concatenate([np.frombuffer(part.ends, np.uint64) for part in checked])
    distinct, counts = np.unique(numbers, return_counts=True)
    shared = distinct[(counts > 1) & (distinct > 0)]
    first: dict[bytes, tuple[_Checked, int]] = {}
    for part in checked:
        for index in np.flatnonzero(np.isin(np.frombuffer(part.ends, np.uint64), shared)).tolist():
            image = part.images.encoded(index)
            content = image.read_bytes() if isinstance(image, Path) else bytes(image)
            digest = hashlib.blake2b(content, digest_size=16).digest()
            other, place = first.setdefault(digest, (part, index))
            same = _("the same as {place}").format(place=other.images.where(place))
            if other is not part:
                part.add(LEAKED, index)
            elif place != index:
                is_same_class = part.images.names[place] == part.images.names[index]
                part.add(REPEATED if is_same_class else CONTRADICTED, index, same)


def _class_findings(train: Images) -> Iterator[Finding]:
    counts = Counter(train.names)
    if len(counts) < 2:
        return  # a problem of the data as a whole
    singles = [name for name, count in counts.items() if count == 1]
    if singles:
        indices = [index for index, name in enumerate(train.names) if counts[name] == 1]
        yield _finding(SINGLE, train, indices, _("class {singles}").format(singles=listed(singles)))
    (most, many), (least, few) = counts.most_common()[0], counts.most_common()[-1]
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
    kind: FindingKind, images: Images, indices: Sequence[int], reason: str, *, in_eval: bool = False
) -> Finding:
    """A finding that names the rows of a table, or else the files."""
    count = len(indices)
    names = [
        str(Path(*path.parts[-2:])) if images.rows is None and isinstance(path, Path) else images.where(index)
        for index in indices[:NAMED]
        for path in (images.encoded(index),)
    ]
    names[0] += f" ({reason})" if reason else ""
    more = _(" and {count:,} more").format(count=count - NAMED) if count > NAMED else ""
    message = f"{kind.message(count, 'image')}: {', '.join(names)}{more}."
    return Finding(
        code=kind.code,
        level=kind.level,
        message=_("Evaluation data: {message}").format(message=message)
        if in_eval and kind is not LEAKED
        else message,
        count=count,
        rows=() if images.rows is None else tuple(map(images.number, indices[:ROWS_NAMED])),
        row_word=images.row_word,
        fixes=kind.fixes,
        in_eval=in_eval,
    )
