"""Classes and held-out samples; the files of a source and one of its splits.

A folder is divided by the names of its files, as the Hub divides data sets: `train.csv` and `test.csv`,
`train-00000-of-00002.parquet`, or the folders `train/` and `validation/`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.text_files import ENDINGS, TEXT_ENDINGS, ending, listed, unreadable
from core.engine.data.text_files import in_order as text_files_in_order
from core.engine.hub import search
from core.options import RunOptions
from core.options.choices import Toggle
from core.options.sources import Scheme, hub_data, scheme_of

# --- Classes, and checks that every kind of data shares


HOLD_OUT_INSTEAD = Fix(_("Use a fraction of the training data instead"), {"data.eval": None})
NO_EVALUATION = Fix(_("Evaluate without separate data"), {"data.eval": None})
USE_ALL_SAMPLES = Fix(_("Use all examples"), {"data.max_train_samples": None})
NOTHING_HELD_OUT = _("There is too little data to take a fraction for validation: nothing is evaluated.")


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Returns the distinct names, sorted by value if all are numbers, else alphabetically."""
    distinct = set(names)
    try:
        return tuple(sorted(distinct, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(distinct))


VERY_FEW, FEW = 10, 50
"""With less than 10 examples, each may have a label of its own; with up to 50, most."""


def are_too_many(labels: int, examples: int) -> bool:
    """Returns whether (nearly) every example has a label of its own."""
    return labels >= examples >= VERY_FEW if examples <= FEW else 2 * labels > examples


def refuse_labels(counts: Mapping[str, int], source: str, fixes: tuple[Fix, ...] = ()) -> None:
    """Raises DataError if a model can't learn from these labels: there is one, or nearly every example has its own."""
    examples = sum(counts.values())
    if len(counts) < 2:
        raise DataError(
            _("{source} has a single label").format(source=source),
            _("Classification needs two labels or more; the data has {labels}.").format(
                labels=listed(counts) or _("none")
            ),
            fixes,
        )
    if are_too_many(len(counts), examples):
        raise DataError(
            _("{source} has a different label for almost every example").format(source=source),
            _(
                "There are {labels:,} labels for {examples:,} examples. A model can learn a label from several "
                "examples only."
            ).format(labels=len(counts), examples=examples),
            fixes,
        )


def refuse_unseen_labels(
    names: Sequence[str], labels: Sequence[str], where: Callable[[int], str], fixes: tuple[Fix, ...] = ()
) -> None:
    """Raises DataError if a validation example has a label that isn't trained on.

    Args:
        where: Returns the place of a sample, such as "row 17 of test.csv".
    """
    known = set(labels)
    unknown = [index for index, name in enumerate(names) if name not in known]
    if unknown:
        foreign = dict.fromkeys(names[index] for index in unknown)
        raise DataError(
            _("The validation data has labels that the training data lacks: {names}").format(
                names=listed(foreign)
            ),
            _(
                "Examples with such a label: {count:,}, the first at {where}. The model learns {labels}."
            ).format(count=len(unknown), where=where(unknown[0]), labels=listed(labels)),
            (Fix(_("Remove these examples, or add examples with these labels to the training data")), *fixes),
        )


# --- Holding out a part of the data, of each class the same share


def stratified_split(labels: Sequence[int], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Splits sample indices into those to train on and those held out, both in ascending order.

    The share of each class is rounded so that all together are `fraction` (largest remainders first). A class always
    keeps one sample for training.

    Args:
        labels: The class index of each sample.
        fraction: The share to hold out, 0 to 1.
    """
    classes = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(classes))
    members = [order[classes[order] == label] for label in np.unique(classes)]
    held_out = [
        int(sample)
        for group, share in zip(
            members, held_out_counts([len(group) for group in members], fraction), strict=True
        )
        for sample in group[:share]
    ]
    training = np.setdiff1d(order, held_out)  # sorted
    return training.tolist(), sorted(held_out)


def random_split(samples: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Splits as `stratified_split` does, without classes; one sample is always trained on."""
    return stratified_split([0] * samples, fraction, seed)


def held_out_counts(sizes: list[int], fraction: float) -> list[int]:
    """Returns how many samples `stratified_split` holds out of each class, by the sizes of the classes."""
    exact = np.asarray(sizes) * fraction
    shares = np.floor(exact).astype(int)
    missing = round(sum(sizes) * fraction) - int(shares.sum())
    for group in np.argsort(shares - exact, kind="stable")[: max(0, missing)]:
        shares[group] += 1
    return np.minimum(shares, np.asarray(sizes) - 1).tolist()


# --- The files of a split


TRAIN_SPLIT, EVAL_SPLIT = "data.train_split", "data.eval_split"
MOST_FIXES = 5

_SHARD = re.compile(r"[-_.]?\d+([-_]of[-_]\d+)?$")
"""The end of the names of the parts of one table: `part-0001`, `0000`, `rows-00000-of-00002`."""

Files = tuple[Path, ...]


@dataclass(frozen=True)
class HeldOut:
    """Evaluation data of its own, which isn't a share of the training data; `header` as for `read_table`.

    `is_test`: the data is what a test evaluates, and nothing is trained.
    """

    source: str
    split: str | None
    option: str
    header: bool | None = None
    is_test: bool = False

    @property
    def instead(self) -> tuple[Fix, ...]:
        """The fix that holds out a share of the training data; none in a test: the model has trained on it."""
        return () if self.is_test else (Fix(HOLD_OUT_INSTEAD.label, {self.option: None}),)


def held_out_of(options: RunOptions) -> HeldOut | None:
    """Returns evaluation data of its own: a file, a folder or another split; None: a share of the training data."""
    data, is_test = options.data, options.only_evaluates
    header = header_asked(data.header)
    if data.eval:
        return HeldOut(data.eval, None, "data.eval", header, is_test)
    return HeldOut(data.train, data.eval_split, EVAL_SPLIT, header, is_test) if data.eval_split else None


def header_asked(option: Toggle) -> bool | None:
    """Returns whether the first row of a delimited file names its columns; None: to be found out."""
    return {Toggle.ON: True, Toggle.OFF: False}.get(option)


def splits_of(source: str) -> tuple[str, ...]:
    """Returns the names of the splits of a source; empty if it isn't divided."""
    name = Scheme.HUB.name_of(source)
    if name is not None:
        return tuple(search.cached_splits(*hub_data(name)))
    if scheme_of(source) is not None or not Path(source).is_dir():
        return ()
    return tuple(_divide(Path(source))[0])


def files_of(source: str, split: str | None = None, option: str = TRAIN_SPLIT) -> Files:
    """Returns the files of a split, in order; all files of a source without splits.

    Args:
        source: A file, a folder or a data set of the Hub, as in `data.train`.
        split: Its name; None: the one called train, or the only one.

    Raises:
        DataError: There is no such split, or there are several tables none of which is called train.
    """
    name = Scheme.HUB.name_of(source)
    if name is not None:
        return _of_hub(name, split, option)
    path = Path(source)
    if path.is_dir():
        return _of_folder(path, split, option)
    if split is not None:
        raise no_such_split(path.name, split, (), option, str(path))
    return (path,)


def texts_of(source: str, split: str | None = None, option: str = TRAIN_SPLIT) -> Files:
    """Returns the same as `files_of`, but a folder of undivided texts itself, to be read whole.

    A folder of books may have one called "The Trial": it counts as divided only if every text is of a split.
    """
    path = Path(source)
    if split is None and scheme_of(source) is None and path.is_dir():
        splits, rest = _divide(path)
        is_whole = not splits or bool(rest) or search.TRAIN not in splits
        files = (*rest, *chain.from_iterable(splits.values()))
        if is_whole and not any(ending(file) in ENDINGS for file in files):
            return (path,)
    return files_of(source, split, option)


def no_such_split(
    name: str, split: str, known: Iterable[str], option: str, where: str | None = None
) -> DataError:
    known = tuple(known)
    detail = _("{source} has: {splits}.") if known else _("{source} isn't divided into splits.")
    fixes = [Fix(_("Use “{other}”").format(other=other), {option: other}) for other in known[:MOST_FIXES]]
    return DataError(
        _("{name} has no split called “{split}”").format(name=name, split=split),
        detail.format(source=where or name, splits=listed(known)),
        tuple(fixes) or (Fix(_("Choose no split"), {option: None}),),
    )


def _of_hub(name: str, split: str | None, option: str) -> Files:
    splits = search.cached_splits(*hub_data(name))
    if split is None:
        split = search.TRAIN if search.TRAIN in splits or len(splits) != 1 else next(iter(splits))
    if split not in splits:
        raise no_such_split(name, split, splits, option)
    return splits[split]


def _divide(folder: Path) -> tuple[dict[str, Files], Files]:
    """Returns the files of a folder by their split, and those whose names name none."""
    names = {path.relative_to(folder).as_posix(): path for path in _data_files(folder)}
    names = {name: path for name, path in names.items() if ending(path) in ENDINGS} or names
    divided = {name for name in names if search.split_of(name)}
    splits = search.by_names(sorted(divided)) if divided else {}
    rest = tuple(path for name, path in sorted(names.items()) if name not in divided)
    return {split: tuple(names[name] for name in files) for split, files in splits.items()}, rest


def _data_files(folder: Path) -> Iterator[Path]:
    """Yields the tables and texts in a folder and its subfolders, without hidden ones and links back to the folder."""
    above = {folder.resolve(), *folder.resolve().parents}
    for path in _visible(folder):
        if path.is_dir():
            if path.resolve() not in above:
                yield from filter(_is_data, _visible(path))
        elif _is_data(path):
            yield path


def _visible(folder: Path) -> list[Path]:
    try:
        return text_files_in_order(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    except OSError as error:
        raise unreadable(folder, error) from error


def _is_data(path: Path) -> bool:
    is_known = ending(path) in ENDINGS or ending(path) in TEXT_ENDINGS
    return is_known and path.is_file() and path.name not in search.NO_DATA


def _of_folder(folder: Path, split: str | None, option: str) -> Files:
    splits, rest = _divide(folder)
    if split is None and len(splits) == 1 and not rest:
        return next(iter(splits.values()))
    if split is not None or search.TRAIN in splits or (splits and not rest):
        name = split or search.TRAIN
        if name not in splits:
            raise no_such_split(folder.name, name, splits, option, str(folder))
        return splits[name]
    if not rest:
        raise DataError(
            _("{name} is a folder without a table in it").format(name=folder.name),
            _("{folder}: rows are read from CSV, TSV, JSON, JSONL, Parquet or CoNLL files.").format(
                folder=folder
            ),
            (Fix(_("Choose a file, or a folder with such files")),),
        )
    stems = {str(path.parent / path.name.partition(".")[0]) for path in rest}
    if len({_SHARD.sub("", stem) for stem in stems}) > 1:
        names = [path.relative_to(folder).as_posix() for path in rest]
        fixes = [
            Fix(_("Use {name}").format(name=name), {"data.train": str(folder / name)})
            for name in names[:MOST_FIXES]
        ]
        raise DataError(
            _("{name} contains several tables").format(name=folder.name or folder),
            _("{folder}: {tables}; none is called train.").format(folder=folder, tables=listed(names)),
            tuple(fixes),
        )
    return rest
