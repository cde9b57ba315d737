"""Where what ran differs from what was asked for, and that nothing is said where it doesn't."""

from typing import Any

import msgspec
import pytest

from core.engine.training.what_ran import OPTIMIZERS, differences
from core.options import RunOptions
from core.options.choices import DeepSpeed, Method, Optimizer, Padding, Precision, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.runs.events import WhatRan

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
    device: dict[str, Any] | None = None,
    data: DataOptions | None = None,
    model: ModelOptions | None = None,
    **training: Any,
) -> RunOptions:
    return RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=model or ModelOptions(),
        data=data or DataOptions(),
        device=DeviceOptions(precision=precision, **(device or {})),
        memory=memory or MemoryOptions(),
        training=TrainingOptions(**training),
    )


def compiled(**device: str) -> RunOptions:
    return asked(device={"compile": True, **device})


LORA, QLORA, HEAD = (
    asked(model=ModelOptions(method=method)) for method in (Method.LORA, Method.QLORA, Method.HEAD)
)
ADAPTED = {"adapter": "LoRA, rank 16 on 12 layers", "trainable_parameters": 10}
FIXED = asked(data=DataOptions(padding=Padding.FIXED))
GROUPED, UNGROUPED = (
    asked(data=DataOptions(group_by_length=asked_for)) for asked_for in (Toggle.ON, Toggle.OFF)
)
PINNED, UNPINNED = (asked(data=DataOptions(pin_memory=asked_for)) for asked_for in (Toggle.ON, Toggle.OFF))
ZERO_2 = asked(memory=MemoryOptions(deepspeed=DeepSpeed.ZERO_2))


def told(settled: RunOptions, **ran: Any) -> dict[str, str]:
    found = differences(settled, msgspec.structs.replace(RAN, **ran))
    return {difference.path: difference.detail for difference in found}


def test_nothing_is_said_where_all_is_as_asked() -> None:
    assert told(asked()) == {}
    assert told(asked(Precision.BF16), autocast_dtype="bfloat16") == {}
    assert told(asked(Precision.FP16), autocast_dtype="float16", loss_scale=65536.0) == {}
    assert told(asked(optimizer=Optimizer.ADAFACTOR), optimizer="Adafactor") == {}
    assert told(asked(weight_decay=0.1), decayed_parameters=90) == {}
    assert told(asked(), optimizer_numbers={"beta1": 0.9, "epsilon": 1e-8, "momentum": 0.0}) == {}
    lion = asked(optimizer=Optimizer.LION_8BIT)
    runs = {"optimizer": OPTIMIZERS[Optimizer.LION_8BIT], "optimizer_state": {"uint8": 2}}
    assert told(lion, **runs, optimizer_numbers={"epsilon": 0.0}) == {}, "it has one and reads none"
    assert told(asked(memory=MemoryOptions(activation_checkpointing=True)), recomputed=12) == {}
    assert told(asked(Precision.TF32), matmul="tf32") == told(asked(), matmul="fp32") == {}
    assert told(asked(Precision.BF16), autocast_dtype="bfloat16", matmul="fp32") == {}
    assert told(asked(device={"threads": 4}, deterministic=True), threads=4, deterministic=True) == {}
    assert told(asked(), attention="sdpa") == told(asked(), attention="eager") == {}
    assert told(LORA, **ADAPTED) == told(HEAD, trainable_parameters=2) == {}
    assert told(QLORA, **ADAPTED, packed_parameters=80) == {}
    assert told(asked(data=DataOptions(workers=2)), workers=(7, 8)) == {}
    assert told(PINNED, pinned=True) == told(UNPINNED) == {}
    assert told(FIXED, padded_to="128 tokens") == told(asked(), padded_to="each batch's longest") == {}
    assert told(GROUPED, sampling="grouped by length") == told(UNGROUPED, sampling="random") == {}
    assert told(compiled(), compiled="inductor, default") == told(compiled()) == {}, (
        "a failure is told at once"
    )
    assert told(compiled(compile_backend="cudagraphs"), compiled="cudagraphs") == {}
    assert told(ZERO_2, deepspeed="ZeRO-2, optimizer in main memory") == {}
    assert (
        told(asked(device={"name": "cuda:1"}), device="cuda:1") == told(asked(device={"name": "cpu"})) == {}
    )
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
        (
            asked(optimizer=Optimizer.ADAM),
            {"optimizer": "Adam"},
            "training.optimizer",
            "Adam, fused was asked for, Adam runs.",
        ),
        (
            asked(),
            {"optimizer": "AdamW, fused, amsgrad"},
            "training.optimizer",
            "AdamW, fused, amsgrad runs.",
        ),
        (asked(weight_decay=0.1), {}, "training.weight_decay", "Biases and norms are left out"),
        (
            asked(weight_decay=0.1),
            {"optimizer_numbers": {"weight_decay": 0.01}, "decayed_parameters": 90},
            "training.weight_decay",
            "Weight decay was to be 0.1, the optimizer runs with 0.01.",
        ),
        (asked(beta2=0.98), {"optimizer_numbers": {"beta2": 0.999}}, "training.beta2", "runs with 0.999."),
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
        (asked(device={"threads": 4}), {"threads": 8}, "device.threads", "4 were asked for, 8 run"),
        (asked(deterministic=True), {}, "training.deterministic", "not told"),
        (asked(), {"attention": "sdpa + eager"}, "model.attention", "sdpa + eager was called"),
        (LORA, {}, "model.method", "lora was asked for, and the model has no LoRA matrices."),
        (asked(), ADAPTED, "model.method", "full was asked for, and the model has LoRA, rank 16"),
        (HEAD, {}, "model.method", "head was asked for, and all weights of the model are trained."),
        (QLORA, ADAPTED, "model.quantization", "were to be quantized as nf4, and none are"),
        (asked(device={"name": "cuda"}), {}, "device.name", "cuda was asked for, the model is on cpu."),
        (asked(data=DataOptions(workers=2)), {}, "data.workers", "2 were asked for, 0 run."),
        (asked(data=DataOptions(workers=0)), {"workers": (7,)}, "data.workers", "0 were asked for, 1 run."),
        (PINNED, {}, "data.pin_memory", "was to be on"),
        (UNPINNED, {"pinned": True}, "data.pin_memory", "was to be off"),
        (FIXED, {"padded_to": "each batch's longest"}, "data.padding", "fixed was asked for, they are"),
        (asked(), {"padded_to": "128 tokens"}, "data.padding", "they are padded to 128 tokens."),
        (GROUPED, {"sampling": "random"}, "data.group_by_length", "was to be on, their order is random."),
        (UNGROUPED, {"sampling": "grouped by length"}, "data.group_by_length", "was to be off"),
        (compiled(), {"compiled": "cudagraphs"}, "device.compile", "inductor, default was asked for"),
        (asked(), {"compiled": "cudagraphs"}, "device.compile", "No compilation was asked for"),
        (ZERO_2, {}, "memory.deepspeed", "zero-2 was asked for, no DeepSpeed runs."),
        (ZERO_2, {"deepspeed": "ZeRO-3"}, "memory.deepspeed", "zero-2 was asked for, ZeRO-3 runs."),
        (asked(), {"deepspeed": "ZeRO-2"}, "memory.deepspeed", "off was asked for, ZeRO-2 runs."),
        (ZERO_2, {"deepspeed": "ZeRO-2"}, "memory.offload", "cpu was asked for, ZeRO-2 runs."),
        (ZERO_2, {"deepspeed": "ZeRO-2, optimizer in NVMe"}, "memory.offload", "optimizer in NVMe runs."),
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
    zero = {"deepspeed": "ZeRO-2, optimizer in main memory"}
    for held in ({"parameter_dtype": "bfloat16"}, {"autocast_dtype": "bfloat16"}):
        assert told(settled, **zero, **held) == {}
    assert set(told(settled, **zero)) == {"device.precision"}


def test_each_option_has_a_message_of_its_own() -> None:
    [found] = differences(asked(), msgspec.structs.replace(RAN, effective_batch=32))
    assert found.message_id == "ran-differently-memory.batch_size"
