"""Which files a source and the name of a split come to: of a folder, of a data set of the Hub, or a file by itself.

A folder is divided by the names of what is in it, as the Hub divides data sets: `train.csv` and `test.csv`,
`train-00000-of-00002.parquet`, or the folders `train/` and `validation/`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from core.base.errors import DataError, Fix
from core.base.language import _
from core.engine.data.text_files import ENDINGS, TEXT_ENDINGS, ending, listed, unreadable
from core.engine.data.text_files import in_order as text_files_in_order
from core.engine.hub import search
from core.options.choices import Toggle
from core.options.data import DataOptions
from core.options.sources import Scheme, hub_data, scheme_of

# --- The names of the classes: their order, and the checks every kind of data shares


HOLD_OUT_INSTEAD = Fix(_("Hold out a part of the training data instead"), {"data.eval": None})
NO_EVALUATION = Fix(_("Evaluate on no data of its own"), {"data.eval": None})
USE_ALL_SAMPLES = Fix(_("Use all samples"), {"data.max_train_samples": None})
NOTHING_HELD_OUT = _("There are too few samples to hold any out: nothing is evaluated.")


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct names, numbers by value and everything else by alphabet."""
    distinct = set(names)
    try:
        return tuple(sorted(distinct, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(distinct))


def refuse_single(labels: tuple[str, ...], source: str, fixes: tuple[Fix, ...] = ()) -> None:
    """Stop where there is nothing to tell apart.

    Raises:
        DataError: Fewer than two classes.
    """
    if len(labels) < 2:
        only = (
            _('every sample is labelled "{labels}"').format(labels=labels[0])
            if labels
            else _("there are none")
        )
        raise DataError(
            _("{source} has only one class").format(source=source),
            _("Classification needs two labels or more; {only}.").format(only=only),
            fixes,
        )


def indices(
    names: Sequence[str],
    labels: tuple[str, ...],
    where: Callable[[int], str],
    fixes: tuple[Fix, ...] = (),
    sample: str = "sample",
) -> list[int]:
    """The class index of each name.

    Args:
        names: The label of each sample.
        labels: The classes that were trained on.
        where: Says where a sample stands, such as "row 17 of test.csv".
        fixes: What else could be done about a label that isn't among `labels`.
        sample: What a label belongs to, in one word.

    Raises:
        DataError: A name is not among `labels`.
    """
    index_of = {label: index for index, label in enumerate(labels)}
    unseen = [number for number, name in enumerate(names) if name not in index_of]
    if unseen:
        foreign = list(dict.fromkeys(names[number] for number in unseen))
        raise unseen_labels(foreign, len(unseen), labels, where(unseen[0]), fixes=fixes, sample=sample)
    return [index_of[name] for name in names]


def unseen_labels(
    names: Sequence[str],
    count: int,
    labels: tuple[str, ...],
    first_place: str,
    *,
    fixes: tuple[Fix, ...] = (),
    sample: str = "sample",
) -> DataError:
    """The error for labels that weren't trained on: which, in how many samples, and where the first of them is."""
    shown = ", ".join(f'"{name}"' for name in in_order(names)[:5])
    known = ", ".join(f'"{label}"' for label in labels[:10]) + (", ..." if len(labels) > 10 else "")
    counted = (
        f"1 {sample} has" if count == 1 else _("{count:,} {sample}s have").format(count=count, sample=sample)
    )
    return DataError(
        _('The evaluation data has a label the training data lacks: "{names}"').format(names=names[0]),
        _(
            "First at {first_place}. {counted} a label the model can't have learned ({shown}); "
            "it learns {known}."
        ).format(first_place=first_place, counted=counted, shown=shown, known=known),
        (
            Fix(
                _("Remove these {sample}s, or add {sample}s of these labels to the training data").format(
                    sample=sample
                )
            ),
            *fixes,
        ),
    )


# --- Hold out a part of the data, each class by its share where there are classes


def stratified_split(labels: Sequence[int], fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """Split sample numbers into training and held-out ones, both in ascending order.

    Each class gives its share, rounded so that the whole comes out at `fraction` (largest remainders first). A class
    always keeps one sample for training, so one that has only a single sample is not held out.

    Args:
        labels: The class index of each sample.
        fraction: The share to hold out, 0 to 1.
        seed: The same seed gives the same split.

    Returns:
        Training samples and held-out samples.
    """
    classes = np.asarray(labels)
    order = np.random.default_rng(seed).permutation(len(classes))
    members = [order[classes[order] == label] for label in np.unique(classes)]
    held_out = [
        int(sample)
        for group, share in zip(members, _shares([len(group) for group in members], fraction), strict=True)
        for sample in group[:share]
    ]
    training = np.setdiff1d(order, held_out)  # sorted
    return training.tolist(), sorted(held_out)


def random_split(samples: int, fraction: float, seed: int) -> tuple[list[int], list[int]]:
    """As `stratified_split`, where there are no classes to heed; one sample is always trained on."""
    return stratified_split([0] * samples, fraction, seed)


def held_out_count(sizes: Sequence[int], fraction: float) -> int:
    """How many samples `stratified_split` holds out of classes of these sizes, in the order of their indices."""
    return sum(_shares(list(sizes), fraction))


def _shares(sizes: list[int], fraction: float) -> list[int]:
    exact = np.asarray(sizes) * fraction
    shares = np.floor(exact).astype(int)
    missing = round(sum(sizes) * fraction) - int(shares.sum())
    for group in np.argsort(shares - exact, kind="stable")[: max(0, missing)]:
        shares[group] += 1
    return np.minimum(shares, np.asarray(sizes) - 1).tolist()


# --- Which files a source and the name of a split come to: of a folder


TRAIN_SPLIT, EVAL_SPLIT = "data.train_split", "data.eval_split"
SHOWN = 5

_SHARD = re.compile(r"[-_.]?\d+([-_]of[-_]\d+)?$")
"""What the names of the parts of one table end with: `part-0001`, `0000`, `rows-00000-of-00002`."""

Files = tuple[Path, ...]


@dataclass(frozen=True)
class HeldOut:
    """What a run is evaluated on where that isn't a share of the training data. `header` as `read_table` takes it."""

    source: str
    split: str | None
    option: str
    header: bool | None = None

    @property
    def instead(self) -> Fix:
        """What else could be done."""
        return Fix(HOLD_OUT_INSTEAD.label, {self.option: None})


def held_out_of(data: DataOptions) -> HeldOut | None:
    """The evaluation data: a file or folder of its own, or another split; None: a part of the training data."""
    header = header_asked(data.header)
    if data.eval:
        return HeldOut(data.eval, None, "data.eval", header)
    return HeldOut(data.train, data.eval_split, EVAL_SPLIT, header) if data.eval_split else None


def header_asked(asked: Toggle) -> bool | None:
    """Whether the first row of a delimited file names its columns; None: that is judged by the file."""
    return {Toggle.ON: True, Toggle.OFF: False}.get(asked)


def splits_of(source: str) -> tuple[str, ...]:
    """The names of the splits there are to choose from; none where a source isn't divided."""
    name = Scheme.HUB.name_of(source)
    if name is not None:
        return tuple(search.dataset_splits(*hub_data(name)))
    if scheme_of(source) is not None or not Path(source).is_dir():
        return ()
    return tuple(_divided(Path(source)).splits)


def files_of(source: str, split: str | None = None, option: str = TRAIN_SPLIT) -> Files:
    """The files of a split, in order; of a source without splits all that it is.

    Args:
        source: As `data.train` has it, a file, a folder or a data set of the Hub.
        split: Its name; None: the one called train, or the only one.
        option: The option that names the split, for the fixes.

    Raises:
        DataError: There is no such split, or it can't be told which of several tables is meant.
    """
    name = Scheme.HUB.name_of(source)
    if name is not None:
        return _of_hub(name, split, option)
    path = Path(source)
    if path.is_dir():
        return _of_folder(path, split, option)
    if split is not None:
        raise DataError(
            _("{name} is one file: it has no splits").format(name=path.name),
            _("{path} was to have a split called “{split}”.").format(path=path, split=split),
            (
                Fix(
                    _("Use the whole file") if option == TRAIN_SPLIT else _("Hold out a share"),
                    {option: None},
                ),
            ),
        )
    return (path,)


def texts_of(source: str, split: str | None = None, option: str = TRAIN_SPLIT) -> Files:
    """As `files_of`; a folder of texts that isn't divided is itself the answer, and read whole.

    A folder of books may well have one called "The Trial": it counts as divided only where every text is of a split.
    """
    path = Path(source)
    if scheme_of(source) is None and path.is_dir():
        found = _divided(path)
        is_whole = not found.splits or bool(found.rest) or search.TRAIN not in found.splits
        if split is None and is_whole and not any(ending(file) in ENDINGS for file in found.files):
            return (path,)
    return files_of(source, split, option)


def no_such_split(
    name: str, split: str, known: Iterable[str], option: str, where: str | None = None
) -> DataError:
    """The error for a split that isn't there."""
    known = tuple(known)
    has = f"has: {listed(known)}" if known else _("isn't divided into any")
    fixes = [Fix(_("Use “{other}”").format(other=other), {option: other}) for other in known[:SHOWN]]
    return DataError(
        _("{name} has no split called “{split}”").format(name=name, split=split),
        f"{where or name} {has}.",
        tuple(fixes) or (Fix(_("Name no split"), {option: None}),),
    )


def _of_hub(name: str, split: str | None, option: str) -> Files:
    dataset, subset = hub_data(name)
    splits = search.dataset_splits(dataset, subset)
    if split is not None and split not in splits:
        raise no_such_split(name, split, splits, option)
    if split is None and search.TRAIN not in splits and len(splits) > 1:
        raise no_such_split(name, search.TRAIN, splits, option)
    return tuple(search.dataset_files(dataset, subset, split or ""))


@dataclass(frozen=True)
class _Divided:
    """The files of a folder by their split, and those of which no name says anything."""

    splits: Mapping[str, Files]
    rest: Files

    @property
    def files(self) -> Iterator[Path]:
        """All of them."""
        yield from self.rest
        for files in self.splits.values():
            yield from files


def _divided(folder: Path) -> _Divided:
    names = {path.relative_to(folder).as_posix(): path for path in _rows_in(folder)}
    tables = {name: path for name, path in names.items() if ending(path) in ENDINGS}
    names = tables or names
    told = {name for name in names if search.split_of(name)}
    splits = search.by_names(sorted(told)) if told else {}
    rest = tuple(path for name, path in sorted(names.items()) if name not in told)
    return _Divided({split: tuple(names[name] for name in found) for split, found in splits.items()}, rest)


def _rows_in(folder: Path) -> Iterator[Path]:
    """The tables and texts in a folder and in the folders right below it; hidden ones are passed over.

    So are links back to the folder or above it, which would bring every row again.
    """
    above = {folder.resolve(), *folder.resolve().parents}
    for path in _visible(folder):
        if path.is_dir():
            if path.resolve() not in above:
                yield from (inner for inner in _visible(path) if _is_rows(inner))
        elif _is_rows(path):
            yield path


def _visible(folder: Path) -> list[Path]:
    try:
        return text_files_in_order(path for path in folder.iterdir() if not path.name.startswith((".", "_")))
    except OSError as error:
        raise unreadable(folder, error) from error


def _is_rows(path: Path) -> bool:
    is_known = ending(path) in ENDINGS or ending(path) in TEXT_ENDINGS
    return is_known and path.is_file() and path.name not in search.NO_DATA


def _of_folder(folder: Path, split: str | None, option: str) -> Files:
    found = _divided(folder)
    wanted = split or (search.TRAIN if search.TRAIN in found.splits else None)
    if wanted is not None:
        if wanted not in found.splits:
            raise no_such_split(folder.name, wanted, found.splits, option, str(folder))
        return found.splits[wanted]
    if found.splits and not found.rest:
        if len(found.splits) == 1:
            return next(iter(found.splits.values()))
        raise no_such_split(folder.name, search.TRAIN, found.splits, option, str(folder))
    if not found.rest:
        raise DataError(
            _("{name} is a folder without a table in it").format(name=folder.name),
            _("{folder}: rows are read from CSV, TSV, JSON, JSONL, Parquet or CoNLL files.").format(
                folder=folder
            ),
            (Fix(_("Choose a file, or a folder with such files")),),
        )
    stems = {str(path.parent / path.name.partition(".")[0]) for path in found.rest}
    if len({_SHARD.sub("", stem) for stem in stems}) > 1:
        names = [path.relative_to(folder).as_posix() for path in found.rest]
        fixes = [
            Fix(_("Use {name}").format(name=name), {"data.train": str(folder / name)})
            for name in names[:SHOWN]
        ]
        raise DataError(
            _("{name} holds several tables").format(name=folder.name),
            f"{folder}: {listed(names)}; none is called train.",
            tuple(fixes),
        )
    return found.rest
