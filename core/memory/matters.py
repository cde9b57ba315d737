"""Which options change how much memory a run takes, and how long a step: what is known survives changes of others."""

import msgspec

from core.options import OutputOptions, RunOptions, TrainingOptions

OF_TRAINING = ("optimizer", "momentum", "max_grad_norm", "deterministic")
"""The options of training that matter. How long a run is and at which learning rate changes nothing."""


def matters(path: str) -> bool:
    """Whether the option at a path changes anything, such as `memory.batch_size`."""
    section, _, name = path.partition(".")
    return section != "output" and (section != "training" or name in OF_TRAINING)


def that_matter(options: RunOptions) -> RunOptions:
    """`options` with those that don't matter at their defaults.

    Where two of these are equal, a forecast or a measurement of the one is good for the other.
    """
    kept = {name: getattr(options.training, name) for name in OF_TRAINING}
    return msgspec.structs.replace(options, training=TrainingOptions(**kept), output=OutputOptions())


def key_of(options: RunOptions) -> bytes:
    """What tells options that matter apart, to look something up by."""
    return msgspec.json.encode(that_matter(options))
