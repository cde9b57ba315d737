"""Whether a request holds anything that a machine or a model may refuse, so that asking them is worth its seconds."""

from collections.abc import Mapping

from core.catalogue import options_by_path, value_of
from core.options import RunOptions

OF_MACHINES: Mapping[str, tuple[str, ...]] = {
    "device.name": ("cpu",),
    "device.precision": ("fp32",),
    "device.compile": (),
    "device.compile_backend": (),
    "device.compile_mode": (),
    "device.processes": (),
    "model.method": ("lora", "head"),
    "model.attention": ("eager",),
    "data.pin_memory": ("off",),
    "memory.deepspeed": (),
    "memory.offload_optimizer": (),
    "training.optimizer": ("adam", "adafactor", "sgd"),
}
"""Options whose values some machine refuses, each with the values that none does, beside its default.

A test holds this against recorded machines.
"""

OF_MODELS = ("model.method", "model.attention", "memory.activation_checkpointing")
"""Options whose values some model refuses; none refuses their defaults."""


def machine_may_refuse(options: RunOptions) -> bool:
    """Whether some machine refuses anything of `options`."""
    return any(
        value_of(options, path) not in (options_by_path()[path].default, *values)
        for path, values in OF_MACHINES.items()
    )


def model_may_refuse(options: RunOptions) -> bool:
    """Whether some model lacks anything that `options` ask for."""
    return any(value_of(options, path) != options_by_path()[path].default for path in OF_MODELS)
