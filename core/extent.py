"""How long a run is, in samples and steps, before it starts; and a warm-up that is no shorter."""

import math
from dataclasses import dataclass

import msgspec

from core.errors import Fix, Problem
from core.figures import counted
from core.options import RunOptions
from core.scratch_models import starts_random

MOST_EPOCHS = 20
"""So many epochs are worth their time for a pretrained model: Mosbach et al. recommend them for small data, where 3 are
usual ("On the Stability of Fine-tuning BERT", 2021). Of text read again, little is left to learn after 4 epochs and
next to nothing after 40 (Muennighoff et al., "Scaling Data-Constrained Language Models", 2023)."""

MOST_EPOCHS_FROM_NOTHING = 90
"""For a model that has learned nothing yet: those of ResNet on ImageNet (Goyal et al., 2017)."""

SAMPLE_PATHS = frozenset({"data.eval_fraction", "data.max_train_samples"})
BATCH_PATHS = frozenset({"memory.batch_size", "memory.gradient_accumulation_steps"})
STEP_PATHS = SAMPLE_PATHS | BATCH_PATHS | {"training.epochs", "training.max_steps"}
"""Options that samples, batches and steps are made from."""


@dataclass(frozen=True)
class Extent:
    """Samples trained on and held out, and steps. `evaluated` is None where a file of its own is evaluated."""

    trained: int
    evaluated: int | None
    steps: int
    steps_per_epoch: int


def extent(options: RunOptions, rows: int) -> Extent:
    """Count samples and steps as Trainer does; rows that have to be dropped are not known yet.

    A last, smaller batch counts as one, and so do batches left over from accumulation.
    """
    data = options.data
    used = min(rows, data.max_train_samples or rows)
    is_apart = bool(data.eval or data.eval_split)
    held_out = 0 if is_apart else round(used * data.eval_fraction)
    trained = max(1, used - held_out)
    return Extent(trained, None if is_apart else held_out, *steps_of(options, trained))


def steps_of(options: RunOptions, trained: int) -> tuple[int, int]:
    """The steps of a run on so many samples, and those of an epoch."""
    batches = math.ceil(trained / options.memory.batch_size)
    per_epoch = max(1, math.ceil(batches / options.memory.gradient_accumulation_steps))
    return options.training.max_steps or math.ceil(options.training.epochs * per_epoch), per_epoch


def with_batch_within(options: RunOptions, rows: int) -> RunOptions:
    """The request with the largest batch that so many rows can make, which is what takes memory."""
    batch = max(1, min(options.memory.batch_size, rows))
    return msgspec.structs.replace(options, memory=msgspec.structs.replace(options.memory, batch_size=batch))


def batch_hint(options: RunOptions, trained: int) -> Problem | None:
    """What is worth knowing of a batch larger than the data: it never comes to be; None: it isn't.

    Args:
        options: The request.
        trained: How many samples are trained on.
    """
    if options.memory.batch_size <= trained:
        return None
    return Problem(
        "memory.batch_size",
        f"larger than the data, which has {counted(trained, 'row')} to train on: an epoch is one step",
        (Fix(f"Use {trained:,}", {"memory.batch_size": trained}),),
    )


def most_epochs(options: RunOptions) -> float:
    """How many epochs are worth their time: those asked for at least."""
    most = MOST_EPOCHS_FROM_NOTHING if starts_random(options) else MOST_EPOCHS
    return max(most, options.training.epochs)


def useful_steps(options: RunOptions, trained: int) -> int:
    """The steps of so many epochs on so many samples."""
    return math.ceil(most_epochs(options) * steps_of(options, trained)[1])


def steps_hint(options: RunOptions, trained: int) -> Problem | None:
    """What is worth knowing of more steps than are worth their time; None: they aren't more.

    Args:
        options: The request.
        trained: How many samples are trained on.
    """
    steps, useful = options.training.max_steps or 0, useful_steps(options, trained)
    if steps <= useful:
        return None
    epochs = steps / steps_of(options, trained)[1]
    return Problem(
        "training.max_steps",
        f"{steps:,} steps are {epochs:,.0f} epochs of this data; more than {useful:,} steps seldom help",
        (Fix(f"Use {useful:,}", {"training.max_steps": useful}),),
    )


def warmup_problem(options: RunOptions, steps: int) -> Problem | None:
    """What is wrong with a warm-up of as many steps as the run or more; None: nothing.

    Args:
        options: The request. Where it says after how many steps to stop, `core.method_rules` has said it already.
        steps: The steps of the run, as Trainer counts them.
    """
    training = options.training
    if training.max_steps is not None or training.warmup < max(
        steps, 2
    ):  # a run of one step has no end to reach
        return None
    return Problem(
        "training.warmup",
        f"{training.warmup:,g} steps of warm-up are no shorter than the run of {steps:,}: the learning rate would "
        "never be reached",
        (Fix("A tenth of the run", {"training.warmup": 0.1}),),
    )
