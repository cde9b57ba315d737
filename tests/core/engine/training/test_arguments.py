"""Each option reaches Trainer under the name Trainer knows it by."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.engine.environment import prepare_torchvision
from core.engine.training.arguments import trainer_arguments
from core.options import RunOptions
from core.options.choices import Precision, Schedule, Task, Toggle
from core.options.data import DataOptions
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions
from tests.fakes.building import resolved

prepare_torchvision()


def arguments(name: str = "cpu", *, has_eval: bool = True, **sections: Any) -> dict[str, Any]:
    options = RunOptions(task=Task.TEXT_CLASSIFICATION, **sections)
    run = resolved(options, name)
    return trainer_arguments(run, Path("checkpoints"), has_eval=has_eval)


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
        deterministic=True,
    )
    plain = arguments()
    of_the_optimizer = {"optimizer", "beta1", "beta2", "epsilon", "momentum"}  # see test_optimizers.py
    of_preferences = {"beta"}  # see test_preference.py
    for name in set(TrainingOptions.__struct_fields__) - of_the_optimizer - of_preferences:
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
    found = arguments("cuda:0", device=DeviceOptions(precision=precision))
    assert (found["bf16"], found["fp16"], found["use_cpu"]) == (bf16, fp16, False)


def test_tf32_is_settled_on_cuda_alone() -> None:
    asked = {"device": DeviceOptions(precision=Precision.TF32)}
    assert arguments("cuda:0", **asked)["tf32"] is True
    assert arguments("cuda:0")["tf32"] is False
    assert "tf32" not in arguments("mps")  # Trainer would refuse even False there


def test_a_constant_rate_may_warm_up_first() -> None:
    training = TrainingOptions(schedule=Schedule.CONSTANT)
    assert arguments(training=training)["lr_scheduler_type"] == "constant"
    warmed = msgspec.structs.replace(training, warmup=10.0)
    assert arguments(training=warmed)["lr_scheduler_type"] == "constant_with_warmup"


def test_workers_stay_and_prepare_ahead() -> None:
    found = arguments(data=DataOptions(workers=2, prefetch=4, pin_memory=Toggle.ON))
    names = ("num_workers", "prefetch_factor", "persistent_workers", "pin_memory")
    assert [found[f"dataloader_{name}"] for name in names] == [2, 4, True, True]
    assert arguments()["dataloader_prefetch_factor"] is None  # without workers PyTorch takes no other


def test_evaluation_and_checkpoints_once_an_epoch_or_not_at_all() -> None:
    assert arguments()["eval_strategy"] == arguments()["save_strategy"] == "epoch"
    assert arguments(has_eval=False)["eval_strategy"] == "no"
    assert arguments(output=OutputOptions(keep_checkpoints=0))["save_strategy"] == "no"


def test_rows_grouped_by_length() -> None:
    assert arguments()["train_sampling_strategy"] == "random"
    assert (
        arguments(data=DataOptions(group_by_length=Toggle.ON))["train_sampling_strategy"] == "group_by_length"
    )


def test_nan_is_not_hidden() -> None:
    assert arguments()["logging_nan_inf_filter"] is False
