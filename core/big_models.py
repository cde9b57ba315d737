"""What to do about a model that is too large, as the guides on training large models decide it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Advice:
    """One branch: where `condition` holds, do as `advice` says; `changes` sets the options that are meant."""

    condition: str
    advice: str
    changes: dict[str, Any]


def big_model_advice() -> tuple[Advice, ...]:
    """The branches from the smallest model to the largest; the first that holds is the one to take.

    Source: the decision tree in the guides "Efficient training on a single GPU" and "DeepSpeed" of transformers.
    """
    return (
        Advice(
            "The model fits comfortably on the GPU",
            "Leave DeepSpeed off: it would only cost time.",
            {"memory.deepspeed": "off"},
        ),
        Advice(
            "The weights and a batch fit; gradients and optimizer state do not",
            "ZeRO-2, with the optimizer state in main memory.",
            {"memory.deepspeed": "zero-2", "memory.offload": "cpu"},
        ),
        Advice(
            "The weights alone do not fit",
            "ZeRO-3, with weights and optimizer state in main memory.",
            {"memory.deepspeed": "zero-3", "memory.offload": "cpu"},
        ),
        Advice(
            "Main memory is too small as well",
            "ZeRO-3, with both on a fast disk: choose a folder on an NVMe drive.",
            {"memory.deepspeed": "zero-3", "memory.offload": "nvme"},
        ),
        Advice(
            "Its largest layer does not fit on the GPU by itself",
            "ZeRO has to bring a layer whole. QLoRA packs it into a quarter of its size in bf16.",
            {"memory.deepspeed": "off", "model.method": "qlora"},
        ),
    )
