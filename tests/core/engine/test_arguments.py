"""Each option reaches Trainer under the name Trainer knows it by."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.engine.arguments import trainer_arguments
from core.engine.devices import Choice
from core.engine.torchvision_ops import prepare_torchvision
from core.options import (
    DataOptions,
    MemoryOptions,
    OutputOptions,
    Precision,
    RunOptions,
    Schedule,
    Task,
    TrainingOptions,
)

prepare_torchvision()

CPU = Choice("cpu", "a CPU", Precision.FP32, {}, asked="auto")


def arguments(choice: Choice = CPU, *, has_eval: bool = True, **sections: Any) -> dict[str, Any]:
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, **sections)
    return trainer_arguments(options, choice, Path("checkpoints"), has_eval=has_eval)


def test_trainer_takes_them_all(tmp_path: Path) -> None:
    from transformers import TrainingArguments

    made = TrainingArguments(**{**arguments(), "output_dir": str(tmp_path)})
    assert made.device.type == "cpu"
    assert made.report_to == []


def test_numbers_arrive_as_they_were_asked() -> None:
    training = TrainingOptions(
        epochs=2.5,
        learning_rate=3e-4,
        schedule=Schedule.COSINE,
        warmup=0.1,
        weight_decay=0.01,
        max_grad_norm=0.5,
        seed=7,
    )
    found = arguments(training=training, memory=MemoryOptions(batch_size=4, gradient_accumulation_steps=8))
    expected = {
        "num_train_epochs": 2.5,
        "learning_rate": 3e-4,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 0.1,
        "weight_decay": 0.01,
        "max_grad_norm": 0.5,
        "seed": 7,
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 8,
    }
    assert {name: found[name] for name in expected} == expected


def test_every_training_option_changes_an_argument() -> None:
    changed = TrainingOptions(
        epochs=9.0,
        max_steps=5,
        learning_rate=1e-3,
        schedule=Schedule.CONSTANT,
        warmup=2.0,
        weight_decay=0.3,
        max_grad_norm=7.0,
        seed=1,
    )
    plain = arguments()
    for name in TrainingOptions.__struct_fields__:
        one = msgspec.structs.replace(TrainingOptions(), **{name: getattr(changed, name)})
        assert one != TrainingOptions()
        assert arguments(training=one) != plain, name


def test_steps_go_before_epochs_only_where_asked() -> None:
    assert arguments()["max_steps"] == -1
    assert arguments(training=TrainingOptions(max_steps=3))["max_steps"] == 3


@pytest.mark.parametrize(
    ("precision", "bf16", "fp16"),
    [(Precision.FP32, False, False), (Precision.BF16, True, False), (Precision.FP16, False, True)],
)
def test_precision(precision: Precision, bf16: bool, fp16: bool) -> None:
    found = arguments(Choice("cuda:0", "a GPU", precision, {}, asked="auto"))
    assert (found["bf16"], found["fp16"], found["use_cpu"]) == (bf16, fp16, False)


def test_memory_is_pinned_for_cuda_alone() -> None:
    pinned = {
        name: arguments(Choice(name, "", Precision.FP32, {}, asked=name))["dataloader_pin_memory"]
        for name in ("cuda:1", "mps", "cpu")
    }
    assert pinned == {"cuda:1": True, "mps": False, "cpu": False}


def test_evaluation_and_checkpoints_once_an_epoch_or_not_at_all() -> None:
    assert arguments()["eval_strategy"] == arguments()["save_strategy"] == "epoch"
    assert arguments(has_eval=False)["eval_strategy"] == "no"
    assert arguments(output=OutputOptions(keep_checkpoints=0))["save_strategy"] == "no"


def test_rows_grouped_by_length() -> None:
    assert arguments()["train_sampling_strategy"] == "random"
    assert arguments(data=DataOptions(group_by_length=True))["train_sampling_strategy"] == "group_by_length"


def test_nan_is_not_hidden() -> None:
    assert arguments()["logging_nan_inf_filter"] is False
