"""Options reach Trainer and DeepSpeed under their own names; that each changes something: test_every_option.py."""

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import TrainingArguments

from core.engine.training.arguments import describe_zero, trainer_arguments, zero_config
from core.options.choices import DeepSpeed, Offload, Precision, Schedule
from core.options.trainer_args import GONE, OBSOLETE, translate
from tests.fakes.training import options_of, resolved, train


def arguments(on: str = "cpu", *, has_eval: bool = True, **changes: Any) -> dict[str, Any]:
    return trainer_arguments(resolved(options_of(**changes), on), Path("checkpoints"), has_eval=has_eval)


FP32, BF16, FP16, TF32 = (
    {"on": "cuda:0", "precision": Precision(name)} for name in ("fp32", "bf16", "fp16", "tf32")
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"eval_strategy": "epoch", "save_strategy": "epoch", "train_sampling_strategy": "random"}),
        ({}, {"dataloader_prefetch_factor": None, "dataloader_multiprocessing_context": None}),
        ({"has_eval": False, "eval_steps": 5.0}, {"eval_strategy": "no"}),
        ({"eval_steps": 0.1}, {"eval_strategy": "steps", "eval_steps": 0.1}),
        ({"keep_checkpoints": 0}, {"save_strategy": "no"}),
        ({"warmup": 0.1}, {"warmup_steps": 0.1, "max_steps": -1, "lr_scheduler_type": "linear"}),
        ({"schedule": Schedule.CONSTANT, "warmup": 10.0}, {"lr_scheduler_type": "constant_with_warmup"}),
        (
            {"workers": 2, "prefetch": 4},
            {"dataloader_prefetch_factor": 4, "dataloader_persistent_workers": True},
        ),
        (FP32, {"bf16": False, "fp16": False, "tf32": False, "use_cpu": False}),
        (BF16, {"bf16": True, "fp16": False, "tf32": False}),
        (FP16, {"bf16": False, "fp16": True}),
        (TF32, {"bf16": False, "tf32": True}),
    ],
)
def test_options_become_arguments(changes, expected):
    found = arguments(**changes)
    assert {name: found[name] for name in expected} == expected


def test_trainer_takes_them_all(tmp_path):
    made = TrainingArguments(**{**arguments(), "output_dir": str(tmp_path)})
    assert (made.device.type, made.report_to, made.logging_nan_inf_filter) == ("cpu", [], False)
    assert "tf32" not in arguments("mps")  # Trainer would refuse even False there


def test_every_argument_of_trainer_can_be_imported_and_its_defaults_ask_for_nothing_else():
    fields = {field.name: field.default for field in dataclasses.fields(TrainingArguments)}
    assert len(fields) > 100
    translations = {name: translate(name, default) for name, default in fields.items()}
    assert [name for name, translation in translations.items() if translation is None] == []
    asked = {
        path: value
        for name, translation in translations.items()
        if translation is not None and fields[name] is not dataclasses.MISSING
        for path, value in translation.values.items()
        if value is not None
    }
    assert (asked["data.pin_memory"], asked["training.optimizer"]) == ("auto", "adamw")
    assert not asked.keys() & {"device.precision", "training.max_steps"}
    # "gradient_checkpointing" is an alias until version 6
    assert fields.keys() & {*GONE, *OBSOLETE} <= {"gradient_checkpointing"}


# --- DeepSpeed


ZERO_2, ZERO_3 = DeepSpeed.ZERO_2, DeepSpeed.ZERO_3


NVME = {"device": "nvme", "pin_memory": True, "nvme_path": "/fast"}


@pytest.mark.parametrize(
    ("stage", "memory", "expected"),
    [
        (ZERO_2, {}, {"stage": 2, "offload_optimizer": {"device": "cpu", "pin_memory": True}}),
        (
            ZERO_3,
            {"offload": Offload.NVME, "offload_folder": "/fast"},
            {
                "stage": 3,
                "offload_optimizer": NVME,
                "offload_param": NVME,
                "stage3_gather_16bit_weights_on_model_save": True,
            },
        ),
        (ZERO_3, {"offload": Offload.NONE}, {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True}),
    ],
)
def test_each_stage_moves_its_parts_and_no_others(stage, memory, expected):
    config = zero_config(resolved(options_of(deepspeed=stage, **memory), "cuda"))
    assert config is not None
    names = ("stage", "offload_optimizer", "offload_param", "stage3_gather_16bit_weights_on_model_save")
    found = config["zero_optimization"]
    assert {name: found[name] for name in names if name in found} == expected
    assert (config["train_batch_size"], config["gradient_clipping"]) == ("auto", "auto")


@pytest.mark.parametrize(("precision", "enabled"), [(Precision.BF16, True), (Precision.FP32, False)])
def test_zero_on_a_cpu_leaves_bf16_to_its_autocast(precision, enabled):
    """Trainer takes bf16 without `use_cpu` for a request to a GPU, and `use_cpu` for one without DeepSpeed."""
    found = arguments("cpu", deepspeed=ZERO_2, precision=precision)
    assert (found["use_cpu"], found["bf16"]) == (False, False)
    assert found["deepspeed"]["torch_autocast"]["enabled"] is enabled


def test_where_deepspeed_is_not_installed_the_run_ends_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    tiny = train(tmp_path / "run", deepspeed=ZERO_2)
    assert tiny.status == 1
    reason = "memory.deepspeed: needs the package deepspeed, which isn't installed"
    assert reason in tiny.messages["failed"].detail


@pytest.mark.parametrize(
    ("stage", "optimizer", "weights", "description"),
    [
        (2, None, None, "ZeRO-2"),
        (3, "none", "none", "ZeRO-3"),
        (2, "cpu", None, "ZeRO-2, optimizer in main memory"),
        (3, "nvme", "nvme", "ZeRO-3, optimizer and weights in NVMe"),
        (3, "nvme", "cpu", "ZeRO-3, optimizer in NVMe, weights in main memory"),
    ],
)
def test_what_ran_of_zero_is_read_from_the_live_engine(stage, optimizer, weights, description):
    places = [place and SimpleNamespace(device=place) for place in (optimizer, weights)]
    live = SimpleNamespace(
        zero_optimization_stage=lambda: stage,
        zero_offload_optimizer=lambda: places[0],
        zero_offload_param=lambda: places[1],
    )
    assert describe_zero(live) == description
    assert describe_zero(None) == ""
