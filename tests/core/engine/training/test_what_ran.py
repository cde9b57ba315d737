"""Where what ran differs from what was chosen, and that nothing is said where it doesn't."""

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


def told(options: RunOptions, **ran: Any) -> dict[str, str]:
    found = differences(options, msgspec.structs.replace(RAN, **ran))
    return {difference.path: difference.detail for difference in found}


LION = asked(optimizer=Optimizer.LION_8BIT)
RUNS_LION = {"optimizer": OPTIMIZERS[Optimizer.LION_8BIT], "optimizer_state": {"uint8": 2}}
RECOMPUTED = asked(memory=MemoryOptions(activation_checkpointing=True))
ZERO_IN_BF16 = asked(Precision.BF16, memory=MemoryOptions(deepspeed=DeepSpeed.ZERO_2))
OFFLOADED = "ZeRO-2, optimizer in main memory"


@pytest.mark.parametrize(
    ("options", "ran"),
    [
        (asked(), {}),
        (asked(Precision.BF16), {"autocast_dtype": "bfloat16", "matmul": "fp32"}),
        (asked(Precision.FP16), {"autocast_dtype": "float16", "loss_scale": 65536.0}),
        (asked(Precision.TF32), {"matmul": "tf32"}),
        (asked(), {"matmul": "fp32"}),
        (asked(optimizer=Optimizer.ADAFACTOR), {"optimizer": "Adafactor"}),
        (asked(weight_decay=0.1), {"decayed_parameters": 90}),
        (asked(), {"optimizer_numbers": {"beta1": 0.9, "epsilon": 1e-8, "momentum": 0.0}}),
        (LION, {**RUNS_LION, "optimizer_numbers": {"epsilon": 0.0}}),  # it has one and reads none
        (RECOMPUTED, {"recomputed": 12}),
        (asked(device={"threads": 4}, deterministic=True), {"threads": 4, "deterministic": True}),
        (asked(), {"attention": "sdpa"}),
        (asked(), {"attention": "eager"}),  # the model has no sdpa
        (LORA, ADAPTED),
        (HEAD, {"trainable_parameters": 2}),
        (QLORA, {**ADAPTED, "packed_parameters": 80}),
        (asked(data=DataOptions(workers=2)), {"workers": (7, 8)}),
        (PINNED, {"pinned": True}),
        (UNPINNED, {}),
        (FIXED, {"padded_to": "128 tokens"}),
        (asked(), {"padded_to": "each batch's longest"}),
        (GROUPED, {"sampling": "grouped by length"}),
        (UNGROUPED, {"sampling": "random"}),
        (compiled(), {"compiled": "inductor, default"}),
        (compiled(), {}),  # a failure is told at once
        (compiled(compile_backend="cudagraphs"), {"compiled": "cudagraphs"}),
        (ZERO_2, {"deepspeed": OFFLOADED}),
        (ZERO_IN_BF16, {"deepspeed": OFFLOADED, "parameter_dtype": "bfloat16"}),
        (ZERO_IN_BF16, {"deepspeed": OFFLOADED, "autocast_dtype": "bfloat16"}),
        (asked(device={"name": "cuda:1"}), {"device": "cuda:1"}),
        (asked(device={"name": "cuda"}), {"device": "cuda:0"}),
        (asked(device={"name": "cpu"}), {}),
    ],
)
def test_nothing_is_said_where_all_is_as_asked(options, ran):
    assert told(options, **ran) == {}


@pytest.mark.parametrize(
    ("options", "ran", "path", "says"),
    [
        (LION, {}, "training.optimizer", "Lion, 8-bit (bitsandbytes) was chosen, AdamW, fused runs."),
        (LION, {"optimizer": RUNS_LION["optimizer"]}, "training.optimizer", "below 4,096 elements"),
        (
            asked(memory=MemoryOptions(offload_optimizer=True)),
            {},
            "training.optimizer",
            "CPUOffloadOptimizer (torchao)",
        ),
        (asked(optimizer=Optimizer.ADAM), {"optimizer": "Adam"}, "training.optimizer", "Adam runs."),
        (asked(weight_decay=0.1), {}, "training.weight_decay", "apply to biases and norms"),
        (
            asked(weight_decay=0.1),
            {"optimizer_numbers": {"weight_decay": 0.01}, "decayed_parameters": 90},
            "training.weight_decay",
            "0.1 was chosen, 0.01 runs.",
        ),
        (asked(beta2=0.98), {"optimizer_numbers": {"beta2": 0.999}}, "training.beta2", "0.999 runs."),
        (asked(Precision.FP16), {}, "device.precision", "fp16 was chosen, float32 runs."),
        (asked(Precision.FP16), {"autocast_dtype": "float16"}, "device.precision", "Small gradients"),
        (asked(), {"autocast_dtype": "bfloat16"}, "device.precision", "bfloat16 runs."),
        (asked(Precision.TF32), {"matmul": "fp32"}, "device.precision", "fp32 runs."),
        (asked(), {"matmul": "tf32"}, "device.precision", "tf32 runs."),
        (ZERO_IN_BF16, {"deepspeed": OFFLOADED}, "device.precision", "float32 runs."),
        (asked(), {"effective_batch": 32}, "memory.batch_size", "16 was chosen, 32 runs."),
        (RECOMPUTED, {}, "memory.activation_checkpointing", "No layer was recomputed"),
        (asked(device={"threads": 4}), {"threads": 8}, "device.threads", "8 runs."),
        (asked(deterministic=True), {}, "training.deterministic", "off runs."),
        (asked(), {"attention": "sdpa + eager"}, "model.attention", "sdpa + eager runs."),
        (LORA, {}, "model.method", "lora was chosen, no adapter runs."),
        (asked(), ADAPTED, "model.method", "LoRA, rank 16 on 12 layers runs."),
        (HEAD, {}, "model.method", "all weights are trained."),
        (QLORA, ADAPTED, "model.quantization", "quantized as nf4"),
        (asked(device={"name": "cuda"}), {}, "device.name", "cuda was chosen, cpu runs."),
        (asked(data=DataOptions(workers=0)), {"workers": (7,)}, "data.workers", "0 was chosen, 1 runs."),
        (PINNED, {}, "data.pin_memory", "on was chosen, off runs."),
        (UNPINNED, {"pinned": True}, "data.pin_memory", "off was chosen, on runs."),
        (FIXED, {"padded_to": "each batch's longest"}, "data.padding", "fixed was chosen"),
        (asked(), {"padded_to": "128 tokens"}, "data.padding", "128 tokens runs."),
        (GROUPED, {"sampling": "random"}, "data.group_by_length", "off runs."),
        (UNGROUPED, {"sampling": "grouped by length"}, "data.group_by_length", "on runs."),
        (compiled(), {"compiled": "cudagraphs"}, "device.compile", "inductor, default was chosen"),
        (asked(), {"compiled": "cudagraphs"}, "device.compile", "no compilation was chosen"),
        (ZERO_2, {}, "memory.deepspeed", "ZeRO-2 was chosen, no DeepSpeed runs."),
        (asked(), {"deepspeed": "ZeRO-2"}, "memory.deepspeed", "ZeRO-2 runs."),
        (ZERO_2, {"deepspeed": "ZeRO-2"}, "memory.offload", "cpu was chosen, none runs."),
        (ZERO_2, {"deepspeed": "ZeRO-2, optimizer in NVMe"}, "memory.offload", "optimizer in NVMe runs."),
    ],
)
def test_a_difference_is_told_at_its_option(options, ran, path, says):
    found = told(options, **ran)
    assert set(found) == {path}
    assert says in found[path]
