"""The names of the classes: their order, and the checks every kind of data shares."""

from collections.abc import Callable, Iterable, Sequence

from core.errors import DataError, Fix

HOLD_OUT_INSTEAD = Fix("Hold out a part of the training data instead", {"data.eval": None})
NO_EVALUATION = Fix("Evaluate on no data of its own", {"data.eval": None})
USE_ALL_SAMPLES = Fix("Use all samples", {"data.max_train_samples": None})
NOTHING_HELD_OUT = "There are too few samples to hold any out: nothing is evaluated."


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
        only = f'every sample is labelled "{labels[0]}"' if labels else "there are none"
        raise DataError(
            f"{source} has only one class", f"Classification needs two labels or more; {only}.", fixes
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
    counted = f"1 {sample} has" if count == 1 else f"{count:,} {sample}s have"
    return DataError(
        f'The evaluation data has a label the training data lacks: "{names[0]}"',
        f"First at {first_place}. {counted} a label the model can't have learned ({shown}); it learns {known}.",
        (Fix(f"Remove these {sample}s, or add {sample}s of these labels to the training data"), *fixes),
    )
