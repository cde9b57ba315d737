"""Options of memory: how much of the work is held at once, and where."""

from typing import Annotated

from core.choices import DeepSpeed, Offload
from core.options.declaring import WITH_DEEP_GRADIENTS, Section, about


class MemoryOptions(Section, frozen=True, kw_only=True):
    """How much of the model's work is held at once."""

    batch_size: Annotated[
        int,
        about(
            "Batch size",
            "Samples computed together. The first thing to lower when memory runs out.",
            aliases=("per_device_train_batch_size",),
            ge=1,
            le=65_536,
        ),
    ] = 16
    gradient_accumulation_steps: Annotated[
        int,
        about(
            "Gradient accumulation",
            "Batches added up before the weights move: the effect of a larger batch in the memory of a small one.",
            unit="batches",
            ge=1,
            le=65_536,
        ),
    ] = 1
    activation_checkpointing: Annotated[
        bool,
        about(
            "Activation checkpointing",
            "Forget what the layers computed and compute it again for the gradients: far less memory, about a quarter "
            "more time.",
            needs=WITH_DEEP_GRADIENTS,
            aliases=("gradient_checkpointing",),
        ),
    ] = False
    deepspeed: Annotated[
        DeepSpeed,
        about(
            "DeepSpeed",
            "For a model that doesn't fit on one GPU. It fits comfortably: leave it off. It doesn't: ZeRO-2, then "
            "ZeRO-3, with offload.",
            advanced=True,
            group="Large models",
        ),
    ] = DeepSpeed.OFF
    offload: Annotated[
        Offload,
        about(
            "Offload to",
            "Where ZeRO puts what the device doesn't need at the moment.",
            advanced=True,
            group="Large models",
            needs={"memory.deepspeed": (DeepSpeed.ZERO_2, DeepSpeed.ZERO_3)},
        ),
    ] = Offload.CPU
    offload_folder: Annotated[
        str | None,
        about(
            "Offload folder",
            "A folder on a fast disk with room for the optimizer state: 16 bytes a weight.",
            advanced=True,
            group="Large models",
            needs={"memory.offload": (Offload.NVME,)},
            path=True,
        ),
    ] = None
    offload_optimizer: Annotated[
        bool,
        about(
            "Optimizer in main memory",
            "Keep AdamW's state in the computer's memory and update there (torchao): less GPU memory, slower steps.",
            advanced=True,
            group="Large models",
        ),
    ] = False
