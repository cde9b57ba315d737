"""Rules of what a run is evaluated on: other data, a split by its name, or a share of what it trains on; never two."""

from collections.abc import Iterator
from pathlib import Path

from core.errors import Fix, Problem
from core.files import is_there
from core.options import DataOptions, RunOptions
from core.sources import Scheme, parse_synthetic, scheme_of

EVAL, SPLIT, FRACTION, TRAIN_SPLIT = "data.eval", "data.eval_split", "data.eval_fraction", "data.train_split"
DEFAULT_SHARE = DataOptions().eval_fraction


def splits(options: RunOptions) -> Iterator[Problem]:
    """What is evaluated on is said once, is another split than the one trained on, and is there to be had."""
    yield from _said_twice(options.data)
    yield from _not_divided(options.data)
    trained = options.data.train_split or "train"
    if options.data.eval_split == trained:
        yield Problem(
            SPLIT,
            f"“{trained}” is trained on; evaluated on it, the model only shows what it knows by heart",
            (Fix("Hold out a share of it instead", {SPLIT: None}),),
        )


def _said_twice(data: DataOptions) -> Iterator[Problem]:
    share = f"{100 * data.eval_fraction:g} %"
    if data.eval and data.eval_split:
        yield Problem(
            SPLIT,
            "there is evaluation data of its own; give one of the two",
            (
                Fix(f"Evaluate on the split {data.eval_split}", {EVAL: None}),
                Fix(f"Evaluate on {Path(data.eval).name}", {SPLIT: None}),
            ),
        )
    apart = EVAL if data.eval else SPLIT if data.eval_split else ""
    if apart and data.eval_fraction not in (0.0, DEFAULT_SHARE):
        named = Path(data.eval).name if data.eval else f"the split {data.eval_split}"
        yield Problem(
            FRACTION,
            f"nothing is held out beside {named}; give one of the two",
            (
                Fix(f"Evaluate on {named}", {FRACTION: DEFAULT_SHARE}),
                Fix(f"Hold out {share} of the training data", {apart: None}),
            ),
        )


def _not_divided(data: DataOptions) -> Iterator[Problem]:
    source = data.train
    is_made = scheme_of(source) is Scheme.BUILTIN or parse_synthetic(source) is not None
    is_one = is_made or (is_there(Path(source)) and Path(source).is_file())
    if not source or not is_one:
        return
    for path, split in ((TRAIN_SPLIT, data.train_split), (SPLIT, data.eval_split)):
        if split:
            label = "Use all of it" if path == TRAIN_SPLIT else "Hold out a share of it instead"
            yield Problem(path, f"{Path(source).name} isn't divided into splits", (Fix(label, {path: None}),))
