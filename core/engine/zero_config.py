"""The run's options as a configuration of DeepSpeed: pure, so that it can be looked at without DeepSpeed.

Sources: DeepSpeed's "Configuration JSON" and "ZeRO" pages, transformers' "DeepSpeed" page ("auto" takes Trainer's own
value). "Trains on a CPU" was tried with DeepSpeed 0.19.8; what concerns GPUs and NVMe is as documented, and was not.
"""

from typing import Any

from core.choices import DeepSpeed, Offload, Precision
from core.options import RunOptions

FROM_TRAINER = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
)


def zero_config(settled: RunOptions, kind: str) -> dict[str, Any] | None:
    """What goes into `TrainingArguments(deepspeed=...)`; None where DeepSpeed is off.

    PyTorch's own optimizer is kept, also where its state lies in main memory: DeepSpeed's for that purpose would be
    compiled at the first run.

    Args:
        settled: The options with nothing automatic left.
        kind: What the run computes on: `cuda` or `cpu`.
    """
    if settled.memory.deepspeed is DeepSpeed.OFF:
        return None
    return {
        **dict.fromkeys(FROM_TRAINER, "auto"),
        **_precision(settled.device.precision, kind),
        "zero_optimization": _zero(settled, kind),
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 1_000_000_000,  # Hone reports each step
    }


def _zero(settled: RunOptions, kind: str) -> dict[str, Any]:
    memory = settled.memory
    found: dict[str, Any] = {
        "stage": 3 if memory.deepspeed is DeepSpeed.ZERO_3 else 2,
        "overlap_comm": kind == "cuda",
        "contiguous_gradients": True,
        "reduce_bucket_size": "auto",
    }
    if memory.deepspeed is DeepSpeed.ZERO_3:
        found["stage3_prefetch_bucket_size"] = "auto"
        found["stage3_param_persistence_threshold"] = "auto"
        found["stage3_gather_16bit_weights_on_model_save"] = True  # in whatever format they are
    where = _offload(settled, kind)
    if where is not None:
        found["offload_optimizer"] = where
        if memory.deepspeed is DeepSpeed.ZERO_3:
            found["offload_param"] = where
    return found


def _offload(settled: RunOptions, kind: str) -> dict[str, Any] | None:
    memory = settled.memory
    if memory.offload is Offload.NONE:
        return None
    where: dict[str, Any] = {"device": memory.offload.value, "pin_memory": kind == "cuda"}
    if memory.offload is Offload.NVME:
        where["nvme_path"] = memory.offload_folder
    return where


def _precision(precision: Precision, kind: str) -> dict[str, Any]:
    """Weights in 16 bits on a GPU, with fp32 copies in the optimizer; on a CPU autocast, the weights staying fp32.

    Trainer refuses bf16 on a CPU under DeepSpeed, so it isn't told of it there (see `core.engine.arguments`).
    """
    if kind == "cpu":
        enabled = precision is Precision.BF16
        return {"torch_autocast": {"enabled": enabled, "dtype": "bfloat16"}}
    return {"bf16": {"enabled": "auto"}, "fp16": {"enabled": "auto"}}
