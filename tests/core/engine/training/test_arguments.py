"""Options reach Trainer under the names Trainer knows them by; that each changes something: test_every_option.py."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from core.engine.environment import prepare_torchvision
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.choices import Precision, Schedule, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions
from core.options.trainer_args import translate
from tests.fakes.training import resolved

prepare_torchvision()


def arguments(on: str = "cpu", *, has_eval: bool = True, **sections: Any) -> dict[str, Any]:
    run = resolved(RunOptions(task=Task.TEXT_CLASSIFICATION, **sections), on)
    return trainer_arguments(run, Path("checkpoints"), has_eval=has_eval)


def test_trainer_takes_them_all(tmp_path):
    from transformers import TrainingArguments

    made = TrainingArguments(**{**arguments(), "output_dir": str(tmp_path)})
    assert (made.device.type, made.report_to, made.logging_nan_inf_filter) == ("cpu", [], False)


@pytest.mark.parametrize(
    ("sections", "expected"),
    [
        (
            {"training": TrainingOptions(epochs=2.5, learning_rate=3e-4, warmup=0.1, seed=7)},
            {"num_train_epochs": 2.5, "learning_rate": 3e-4, "warmup_steps": 0.1, "seed": 7, "max_steps": -1},
        ),
        (
            {"memory": MemoryOptions(batch_size=4, gradient_accumulation_steps=8)},
            {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 8},
        ),
        ({"training": TrainingOptions(max_steps=3)}, {"max_steps": 3}),
        ({"training": TrainingOptions(schedule=Schedule.COSINE)}, {"lr_scheduler_type": "cosine"}),
        ({"training": TrainingOptions(schedule=Schedule.CONSTANT)}, {"lr_scheduler_type": "constant"}),
        (
            {"training": TrainingOptions(schedule=Schedule.CONSTANT, warmup=10.0)},
            {"lr_scheduler_type": "constant_with_warmup"},
        ),
        (
            {"data": DataOptions(workers=2, prefetch=4, pin_memory=Toggle.ON)},
            {
                "dataloader_num_workers": 2,
                "dataloader_prefetch_factor": 4,
                "dataloader_persistent_workers": True,
                "dataloader_pin_memory": True,
            },
        ),
        ({}, {"dataloader_prefetch_factor": None, "dataloader_multiprocessing_context": None}),
        (
            {"data": DataOptions(group_by_length=Toggle.ON)},
            {"train_sampling_strategy": "group_by_length"},
        ),
        ({}, {"eval_strategy": "epoch", "save_strategy": "epoch", "train_sampling_strategy": "random"}),
        ({"has_eval": False}, {"eval_strategy": "no"}),
        ({"output": OutputOptions(keep_checkpoints=0)}, {"save_strategy": "no"}),
        (
            {"on": "cuda:0", "device": DeviceOptions(precision=Precision.FP32)},
            {"bf16": False, "fp16": False, "tf32": False, "use_cpu": False},
        ),
        ({"on": "cuda:0", "device": DeviceOptions(precision=Precision.BF16)}, {"bf16": True, "fp16": False}),
        ({"on": "cuda:0", "device": DeviceOptions(precision=Precision.FP16)}, {"bf16": False, "fp16": True}),
        ({"on": "cuda:0", "device": DeviceOptions(precision=Precision.TF32)}, {"bf16": False, "tf32": True}),
    ],
)
def test_they_arrive_as_asked(sections, expected):
    found = arguments(**sections)
    assert {name: found[name] for name in expected} == expected


def test_tf32_is_named_on_cuda_alone():
    assert "tf32" not in arguments("mps")  # Trainer would refuse even False there


prepare_torchvision()


def test_no_name_of_trainer_is_unknown():
    from transformers import TrainingArguments

    fields = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    assert len(fields) > 100
    assert [name for name, default in fields.items() if translate(name, default) is None] == []


def test_names_said_to_be_gone_are_gone():
    from transformers import TrainingArguments

    from core.options.trainer_args import GONE, OBSOLETE

    fields = {field.name for field in dataclasses.fields(TrainingArguments)}
    still_there = {name for name in (*GONE, *OBSOLETE) if name in fields}
    assert still_there <= {"gradient_checkpointing"}, "an alias until version 6"


def test_trainers_own_defaults_ask_for_nothing_else():
    """A TrainingArguments saved as JSON holds all defaults; importing it must not refuse or change much."""
    from transformers import TrainingArguments

    fields = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    asked = {
        path: value
        for name, default in fields.items()
        if (translation := translate(name, default)) is not None
        for path, value in translation.values.items()
        if value is not None and default is not dataclasses.MISSING
    }
    assert asked["data.pin_memory"] == "auto"
    assert asked["training.optimizer"] == "adamw"
    assert "device.precision" not in asked
    assert "training.max_steps" not in asked
