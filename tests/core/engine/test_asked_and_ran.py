"""Where what ran differs from what was asked for, and that nothing is said where it doesn't."""

from typing import Any

import msgspec
import pytest

from core.choices import DeepSpeed, Optimizer, Precision, Task
from core.engine.asked_and_ran import OPTIMIZERS, differences
from core.events import WhatRan
from core.options import DeviceOptions, MemoryOptions, RunOptions, TrainingOptions

RAN = WhatRan(
    device="cpu",
    device_name="a CPU",
    parameter_dtype="float32",
    autocast_dtype=None,
    optimizer="AdamW, fused",
    optimizer_state_bytes=800,
    optimizer_state={"float32": 800},
    trainable_parameters=100,
    total_parameters=100,
    effective_batch=16,
    decayed_parameters=0,
)


def asked(
    precision: Precision = Precision.FP32,
    memory: MemoryOptions | None = None,
    threads: int | None = None,
    **training: Any,
) -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        device=DeviceOptions(precision=precision, threads=threads),
        memory=memory or MemoryOptions(),
        training=TrainingOptions(**training),
    )


def told(settled: RunOptions, **ran: Any) -> dict[str, str]:
    found = differences(settled, msgspec.structs.replace(RAN, **ran))
    return {difference.path: difference.detail for difference in found}


def test_nothing_is_said_where_all_is_as_asked() -> None:
    assert told(asked()) == {}
    assert told(asked(Precision.BF16), autocast_dtype="bfloat16") == {}
    assert told(asked(Precision.FP16), autocast_dtype="float16", loss_scale=65536.0) == {}
    assert told(asked(optimizer=Optimizer.ADAFACTOR), optimizer="Adafactor") == {}
    assert told(asked(weight_decay=0.1), decayed_parameters=90) == {}
    assert told(asked(memory=MemoryOptions(activation_checkpointing=True)), recomputed=12) == {}
    assert told(asked(Precision.TF32), matmul="tf32") == told(asked(), matmul="fp32") == {}
    assert told(asked(Precision.BF16), autocast_dtype="bfloat16", matmul="fp32") == {}
    assert told(asked(threads=4, deterministic=True), threads=4, deterministic=True) == {}
    assert told(asked(), attention="sdpa") == told(asked(), attention="eager") == {}
    assert set(OPTIMIZERS) == set(Optimizer)


@pytest.mark.parametrize(
    ("settled", "ran", "path", "says"),
    [
        (
            asked(optimizer=Optimizer.ADAMW_8BIT),
            {},
            "training.optimizer",
            "AdamW, 8-bit (bitsandbytes) was asked for, AdamW, fused runs.",
        ),
        (
            asked(optimizer=Optimizer.PAGED_ADAMW_8BIT),
            {"optimizer": "AdamW, 8-bit (bitsandbytes)", "optimizer_state": {"uint8": 200}},
            "training.optimizer",
            "AdamW, 8-bit, paged (bitsandbytes) was asked for",
        ),
        (
            asked(optimizer=Optimizer.LION_8BIT),
            {"optimizer": "Lion, 8-bit (bitsandbytes)"},
            "training.optimizer",
            "Embeddings and tensors below 4,096 numbers",
        ),
        (
            asked(memory=MemoryOptions(offload_optimizer=True)),
            {},
            "training.optimizer",
            "CPUOffloadOptimizer (torchao) was asked for",
        ),
        (asked(weight_decay=0.1), {}, "training.weight_decay", "Biases and norms are left out"),
        (asked(Precision.FP16), {}, "device.precision", "fp16 was asked for, the model computes in float32."),
        (asked(Precision.FP16), {"autocast_dtype": "float16"}, "device.precision", "Small gradients"),
        (asked(), {"autocast_dtype": "bfloat16"}, "device.precision", "the model computes in bfloat16."),
        (
            asked(),
            {"effective_batch": 32},
            "memory.batch_size",
            "16 samples a step were asked for, 32 are taken.",
        ),
        (
            asked(memory=MemoryOptions(activation_checkpointing=True)),
            {},
            "memory.activation_checkpointing",
            "no layer's were",
        ),
        (asked(Precision.TF32), {"matmul": "fp32"}, "device.precision", "the GPU multiplies in fp32"),
        (asked(), {"matmul": "tf32"}, "device.precision", "the GPU multiplies in tf32"),
        (asked(threads=4), {"threads": 8}, "device.threads", "4 were asked for, 8 run"),
        (asked(deterministic=True), {}, "training.deterministic", "not told"),
        (asked(), {"attention": "sdpa + eager"}, "model.attention", "sdpa + eager was called"),
    ],
)
def test_a_difference_is_told_at_its_option(
    settled: RunOptions, ran: dict[str, Any], path: str, says: str
) -> None:
    found = told(settled, **ran)
    assert set(found) == {path}
    assert says in found[path]


def test_deepspeed_may_hold_the_weights_themselves_in_16_bits() -> None:
    settled = asked(Precision.BF16, memory=MemoryOptions(deepspeed=DeepSpeed.ZERO_2))
    assert told(settled, parameter_dtype="bfloat16") == told(settled, autocast_dtype="bfloat16") == {}
    assert set(told(settled)) == {"device.precision"}


def test_each_option_has_a_message_of_its_own() -> None:
    [found] = differences(asked(), msgspec.structs.replace(RAN, effective_batch=32))
    assert found.message_id == "ran-differently-memory.batch_size"
