"""TrainingArguments, scripts and command lines as options of Hone, and Trainer's names in run files."""

import json
from typing import Any

import pytest

from core.base.errors import OptionsError
from core.cli.main import main
from core.options import run_file
from core.options.importing import NOT_GIVEN, Imported, import_text
from core.options.trainer_args import rename_arguments
from core.options.validate import check_tree

RUN_GLUE = """
torchrun --nproc_per_node 2 examples/pytorch/text-classification/run_glue.py \\
  --model_name_or_path google-bert/bert-base-cased --task_name mrpc --do_train --do_eval \\
  --max_seq_length 128 --per_device_train_batch_size=32 --learning_rate 2e-5 --num_train_epochs 3 \\
  --output_dir /tmp/mrpc/ --overwrite_output_dir --evaluation_strategy epoch --warmup_ratio 0.1
"""
ARGUMENTS = (
    '{"output_dir": "out", "fp16": false, "bf16": true, "gradient_checkpointing": true, "max_steps": -1, '
    '"optim": "adamw_bnb_8bit", "lr_scheduler_type": "cosine", "dataloader_num_workers": 2, "debug": null}'
)
LORA_SCRIPT = """
args = TrainingArguments(output_dir=folder, learning_rate=2e-4, tf32=True)
lora = LoraConfig(r=8, target_modules=["query", "value"], use_dora=True)
"""


def taken(imported: Imported) -> dict[str, Any]:
    given = [found for found in imported.taken if found.value != NOT_GIVEN]
    return {path: value for found in given for path, value in found.options.items()}


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (RUN_GLUE, {"device.processes": 2, "model.source": "google-bert/bert-base-cased", "data.max_length": 128,
            "memory.batch_size": 32, "training.learning_rate": 2e-5, "training.epochs": 3.0, "training.warmup": 0.1}),
        (ARGUMENTS, {"device.precision": "bf16", "memory.activation_checkpointing": True,
            "training.optimizer": "adamw-8bit", "training.schedule": "cosine", "data.workers": 2}),
        (LORA_SCRIPT, {"training.learning_rate": 2e-4, "device.precision": "tf32", "model.method": "lora",
            "model.lora_rank": 8, "model.lora_targets": ["query", "value"], "model.lora_dora": True}),
        ("LoraConfig(r=8)\nBitsAndBytesConfig(load_in_4bit=True)",
            {"model.method": "qlora", "model.quantization": "nf4", "model.lora_rank": 8}),
        ('{"dataloader_pin_memory": true, "warmup_ratio": 0.1, "warmup_steps": 0}',
            {"data.pin_memory": "auto", "training.warmup": 0.1}),
        ('{"target_modules": "all-linear"}', {"model.lora_targets": []}),
        ('{"torch_empty_cache_steps": 50}', {"memory.empty_cache_steps": 50}),
        ("SFTConfig(pad_to_multiple_of=8)", {"data.pad_to_multiple_of": 8}),
        ('SFTConfig(pad_to_multiple_of="auto", learning_rate=1e-4)', {"training.learning_rate": 1e-4}),
        ('{"peft_type": "LORA", "r": 4, "bias": "none"}', {"model.method": "lora", "model.lora_rank": 4}),
        ('{"fsdp": "full_shard auto_wrap"}', {"memory.fsdp": True}),
        ('{"fsdp": ""}', {"memory.fsdp": False}),
        ('{"deepspeed": {"zero_optimization": {"stage": 3}}}', {"memory.deepspeed": "zero-3"}),
        ("run_glue.py --fp16 ^\r\n  --seed 7", {"device.precision": "fp16", "training.seed": 7}),
        ("trl.KTOConfig(beta=0.2, seed=3)",
            {"training.preference_loss": "kto", "training.beta": 0.2, "training.seed": 3}),
        ("SFTConfig(seed=3)\nDataLoader(data, batch_size=64)", {"training.seed": 3}),
        ('AutoModel.from_pretrained("bert-base-cased")\nTrainingArguments(seed=1, **more)',
            {"model.source": "bert-base-cased", "training.seed": 1}),
        ("run.py --model_name_or_path $MODEL --train_file $(ls *.csv) --seed 5", {"training.seed": 5}),
    ],
)  # fmt: skip
def test_forms_that_people_have(text, options):
    imported = import_text(text)
    assert (taken(imported), imported.problems) == (options, ())


@pytest.mark.parametrize(
    ("assigned", "used"),
    [
        ("export TASK_NAME=stsb", "$TASK_NAME"),
        ("TASK_NAME='stsb'", "${TASK_NAME}"),
        ("NAME=stsb\nTASK_NAME=$NAME", '"$TASK_NAME"'),
    ],
)
def test_variables_assigned_in_the_text_are_resolved(assigned, used):
    imported = import_text(f"{assigned}\n\npython run_glue.py \\\n  --task_name {used} --seed 5")
    assert imported.tree == import_text("python run_glue.py --task_name stsb --seed 5").tree


@pytest.mark.parametrize(
    ("text", "name", "reason"),
    [
        (RUN_GLUE, "evaluation_strategy", "eval_strategy"),
        (RUN_GLUE, "overwrite_output_dir", "nothing is overwritten"),
        ('{"seed": 1, "no_such_thing": 3}', "no_such_thing", "unknown name"),
        ("run.py --train_file $(ls *.csv) --seed 5", "train_file", "set it by hand"),
        ("TrainingArguments(learning_rate=2 * best, fp16=use_fp16())", "learning_rate", "set it by hand"),
        ("TrainingArguments(seed=1, **more)", "**", "set it by hand"),
    ],
)
def test_what_is_left_out_has_a_reason(text, name, reason):
    assert reason in next(found.reason for found in import_text(text).left if found.name == name)


@pytest.mark.parametrize(
    ("given", "training"),
    [
        ("--eval_strategy steps --eval_steps 50", {"eval_steps": 50.0}),
        ("--evaluation_strategy steps --logging_steps 20", {"eval_steps": 20.0}),
        ("--eval_strategy epoch --eval_steps 50 --seed 1", {"seed": 1}),
        ("--metric_for_best_model eval_f1", {"metric_for_best_model": "f1"}),
    ],
)
def test_when_to_evaluate_and_by_which_metric(given, training):
    assert import_text(f"run_glue.py {given}").tree["training"] == training


def test_old_names_are_taken_with_a_note():
    old = import_text(json.dumps({"warmup_ratio": 0.1, "optim": "adamw_hf", "use_mps_device": True}))
    notes = {found.name: found.note for found in old.taken}
    assert ("warmup_steps" in notes["warmup_ratio"], "adamw_torch" in notes["optim"]) == (True, True)
    assert notes["use_mps_device"]


def test_what_trainer_would_do_by_default_and_the_task_are_filled_in():
    tree = import_text('{"learning_rate": 1e-4, "fp16": false, "bf16": false}').tree
    assert (tree["device"]["precision"], tree["memory"]["batch_size"]) == ("fp32", 8)
    assert tree["data"]["group_by_length"] == "off"
    images = import_text("run_image_classification.py --train_dir cats --learning_rate 1e-3").tree
    assert (images["task"], images["data"]) == ("image-classification", {"train": "cats"})
    for name, task in (("mrpc", "text-classification"), ("STSB", "text-regression")):
        assert import_text(f"run_glue.py --task_name {name} --learning_rate 2e-5").tree["task"] == task


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ({"fp16": True, "bf16": True}, "device.precision"),
        ({"load_in_4bit": True, "load_in_8bit": True}, "model.quantization"),
        ({"load_in_4bit": True, "use_lora": False}, "model.method"),
        ({"learning_rate": "fast"}, "training.learning_rate"),
    ],
)
def test_what_excludes_each_other_or_is_no_value_is_a_problem(given, path):
    assert [problem.path for problem in import_text(json.dumps(given)).problems] == [path]


@pytest.mark.parametrize(
    "text",
    [
        *("", "hello there", "[1, 2]", "f(x", "--", "'"),
        *("f(a={[]: 1})", '{"cells": []}', '{"a": null}', "Config(**x)"),
    ],
)
def test_a_text_without_options_is_refused(text):
    with pytest.raises(OptionsError, match="1 problem"):
        import_text(text)


def test_the_command_prints_a_run_file_that_reads_back(tmp_path, capsys):
    script, made = tmp_path / "train.sh", tmp_path / "made.hone"
    script.write_text(RUN_GLUE)
    assert main(["new", "--from", str(script)]) == 0
    printed = capsys.readouterr()
    assert "LEFT OUT" in printed.err
    made.write_text(printed.out)
    assert run_file.read_tree(made)["training"]["learning_rate"] == 2e-5
    script.write_text('{"fp16": true, "bf16": true, "seed": [null], "num_train_epochs": 2}')
    assert main(["new", "--from", str(script)]) == 1
    printed = capsys.readouterr()
    assert ("epochs = 2" in printed.out, "seed" in printed.out) == (True, False)
    assert "training.seed" in printed.err
    assert "device.precision" in printed.err
    assert main(["new", "--from", str(script), "-o", str(made)]) == 2, "it is there already"
    assert main(["new", "--from", str(tmp_path / "none.json")]) == 2


# --- Trainer's names in run files


def test_trainers_names_are_replaced_where_they_are():
    tree = {
        "memory": {"gradient_checkpointing": True},
        "per_device_train_batch_size": 4,
        "training": {"optimizer": "adamw_torch_fused", "bf16": True},
    }
    renamed, notes = rename_arguments(tree)
    assert renamed == {
        "memory": {"activation_checkpointing": True, "batch_size": 4},
        "training": {"optimizer": "adamw"},
        "device": {"precision": "bf16"},
    }
    assert any("gradient_checkpointing is memory.activation_checkpointing" in note for note in notes)
    assert tree["memory"] == {"gradient_checkpointing": True}, "the tree that came in is left alone"


@pytest.mark.parametrize(
    ("sections", "path", "text"),
    [
        ({"device": {"fp16": True, "bf16": True}}, "device.bf16", "but device.precision = fp16"),
        ({"load_in_4bit": True, "load_in_8bit": True}, "load_in_8bit", "but model.quantization = nf4"),
        ({"training": {"evaluation_strategy": "epoch"}}, "training.evaluation_strategy", "eval_strategy"),
    ],
)
def test_names_that_contradict_or_mean_nothing_are_explained(sections, path, text):
    _, problems = check_tree(rename_arguments({"task": "text-classification", **sections})[0])
    assert text in next(problem.message for problem in problems if problem.path == path)


def test_trainers_names_on_the_command_line_override_the_file(tmp_path):
    path = tmp_path / "run.hone"
    path.write_text(
        'task = "image-classification"\n[model]\nsource = "torchvision:alexnet"\n'
        '[data]\ntrain = "builtin:digits"\n[memory]\ngradient_checkpointing = true\n'
    )
    assert run_file.read(path).memory.activation_checkpointing
    assert not run_file.read(path, ("gradient_checkpointing=false",)).memory.activation_checkpointing
    for name, kind in (("adafactor",) * 2, ("lion_32bit", "lion"), ("adamw_torch_fused", "adamw")):
        assert run_file.read(path, (f"training.optim={name}",)).training.optimizer == kind
    assert run_file.read(path, ("fp16=false",)).device.precision == "auto"
    with pytest.raises(OptionsError, match="keep one"):
        run_file.read(path, ("fp16=true", "bf16=true"))
    first, second = run_file.renamings(path, ("use_cpu=true",))
    assert "memory.activation_checkpointing = true" in first
    assert "device.name = cpu" in second
