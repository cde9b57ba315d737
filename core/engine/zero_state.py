"""What DeepSpeed keeps of a run beside tensors: a few harmless classes of its own, allowed where a run goes on.

It would unpickle its files as they are. Hone forbids that for the whole process (`core.engine.environment`), so that
torch has to be told which classes may come back: they hold numbers, and nothing else can.
"""

from importlib import import_module

import torch

HARMLESS = {
    "deepspeed.runtime.fp16.loss_scaler": ("LossScaler", "DynamicLossScaler"),
    "deepspeed.runtime.zero.config": ("ZeroStageEnum",),
    "deepspeed.utils.tensor_fragment": ("fragment_address",),
}
"""By module; seen in the files of DeepSpeed 0.19.8."""


def allow_zero_state() -> None:
    """Let torch bring back DeepSpeed's own record of a run."""
    found = [
        getattr(import_module(module), name)
        for module, names in HARMLESS.items()
        for name in names
        if hasattr(import_module(module), name)
    ]
    torch.serialization.add_safe_globals(found)
