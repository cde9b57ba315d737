"""What people have, put in Hone's words: TrainingArguments, scripts, command lines, and old names in run files."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import OptionsError
from core.cli.main import main
from core.options import run_file
from core.options.importing import NOT_SAID, Imported, import_text
from core.options.trainer_args import in_our_words
from core.options.validate import check_tree

RUN_GLUE = """
torchrun --nproc_per_node 2 examples/pytorch/text-classification/run_glue.py \\
  --model_name_or_path google-bert/bert-base-cased --task_name mrpc --do_train --do_eval \\
  --max_seq_length 128 --per_device_train_batch_size=32 --learning_rate 2e-5 --num_train_epochs 3 \\
  --output_dir /tmp/mrpc/ --overwrite_output_dir --evaluation_strategy epoch --warmup_ratio 0.1
"""


def options_of(imported: Imported) -> dict[str, Any]:
    """What was taken over of what was said."""
    said = [found for found in imported.taken if found.value != NOT_SAID]
    return {path: value for found in said for path, value in found.options.items()}


def reason(imported: Imported, name: str) -> str:
    return next(found.reason for found in imported.left if found.name == name)


@pytest.mark.parametrize("asks", ["$TASK_NAME", "${TASK_NAME}", '"$TASK_NAME"'])
@pytest.mark.parametrize(
    "assigns", ["export TASK_NAME=mrpc", "TASK_NAME='mrpc'", "NAME=mrpc\nTASK_NAME=$NAME"]
)
def test_variables_that_the_text_itself_assigns_are_resolved(assigns: str, asks: str) -> None:
    found = import_text(
        f"{assigns}\n\npython run_glue.py \\\n  --task_name {asks} --seed 5 \\\n  --output_dir /tmp/$TASK_NAME/"
    )
    direct = import_text("python run_glue.py --task_name mrpc --seed 5 --output_dir /tmp/mrpc/")
    assert (found.tree, found.problems) == (direct.tree, direct.problems)
    assert found.taken == direct.taken
    assert "mrpc" in reason(found, "task_name")


def test_a_variable_that_only_the_shell_knows_is_left() -> None:
    found = import_text("python run_glue.py --model_name_or_path $MODEL --train_file $(ls *.csv) --seed 5")
    assert options_of(found) == {"training.seed": 5}
    assert "set it by hand" in reason(found, "model_name_or_path")


def test_a_command_line_of_run_glue() -> None:
    imported = import_text(RUN_GLUE)
    assert options_of(imported) == {
        "device.processes": 2,
        "model.source": "google-bert/bert-base-cased",
        "data.max_length": 128,
        "memory.batch_size": 32,
        "training.learning_rate": 2e-5,
        "training.epochs": 3.0,
        "training.warmup": 0.1,
    }
    assert imported.problems == ()
    assert imported.tree["memory"] == {"batch_size": 32}
    assert imported.tree["device"]["precision"] == "fp32"  # what the script would have computed in
    assert imported.tree["data"]["group_by_length"] == "off"


def test_a_script_that_says_little_is_the_same_run_in_hone() -> None:
    tree = import_text('{"learning_rate": 1e-4, "fp16": false, "bf16": false}').tree
    assert (tree["device"]["precision"], tree["memory"]["batch_size"]) == ("fp32", 8)
    images = import_text("run_image_classification.py --train_dir cats --learning_rate 1e-3").tree
    assert (images["task"], images["data"]) == ("image-classification", {"train": "cats"})


def test_names_that_no_longer_exist_are_told_with_what_became_of_them() -> None:
    imported = import_text(RUN_GLUE)
    assert "eval_strategy today" in reason(imported, "evaluation_strategy")
    assert "nothing is overwritten" in reason(imported, "overwrite_output_dir")
    notes = {found.name: found.note for found in imported.taken}
    assert "warmup_steps below 1" in notes["warmup_ratio"]
    old = import_text(json.dumps({"optim": "adamw_hf", "use_mps_device": True, "no_such_thing": 3}))
    notes = {found.name: found.note for found in old.taken}
    assert "adamw_torch has taken its place" in notes["optim"]
    assert "takes an Apple GPU by itself" in notes["use_mps_device"]
    assert reason(old, "no_such_thing") == "Hone knows no such name"


def test_training_arguments_as_json() -> None:
    said = {
        "output_dir": "out",
        "fp16": False,
        "bf16": True,
        "gradient_checkpointing": True,
        "optim": "adamw_bnb_8bit",
        "lr_scheduler_type": "cosine",
        "max_steps": -1,
        "dataloader_num_workers": 2,
        "label_names": None,
    }
    assert options_of(import_text(json.dumps(said))) == {
        "device.precision": "bf16",
        "memory.activation_checkpointing": True,
        "training.optimizer": "adamw-8bit",
        "training.schedule": "cosine",
        "data.workers": 2,
    }


def test_a_python_script_with_lora_and_packed_weights() -> None:
    text = """
    args = TrainingArguments(output_dir=folder, learning_rate=2e-4, tf32=True)
    lora = LoraConfig(r=8, lora_alpha=16, target_modules=["query", "value"])
    """
    lora = options_of(import_text("\n".join(line.strip() for line in text.splitlines())))
    assert lora["model.method"] == "lora"
    assert (lora["model.lora_rank"], lora["model.lora_targets"]) == (8, ["query", "value"])
    assert lora["device.precision"] == "tf32"
    packed = import_text("LoraConfig(r=8)\nBitsAndBytesConfig(load_in_4bit=True)")
    assert options_of(packed)["model.method"] == "qlora"
    assert packed.problems == ()


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ({"fp16": True, "bf16": True}, "device.precision"),
        ({"load_in_4bit": True, "load_in_8bit": True}, "model.quantization"),
        ({"load_in_4bit": True, "use_lora": False}, "model.method"),
        ({"learning_rate": "fast"}, "training.learning_rate"),
    ],
)
def test_what_excludes_each_other_is_a_problem(said: dict[str, Any], path: str) -> None:
    assert [problem.path for problem in import_text(json.dumps(said)).problems] == [path]


@pytest.mark.parametrize("text", ["", "hello there", "[1, 2]", "f(x", "--", "'"])
def test_what_holds_no_options_is_refused(text: str) -> None:
    with pytest.raises(OptionsError, match="problem"):
        import_text(text)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (
            '{"dataloader_pin_memory": true, "warmup_ratio": 0.1, "warmup_steps": 0}',
            {"data.pin_memory": "auto", "training.warmup": 0.1},
        ),
        ('{"target_modules": "all-linear"}', {"model.lora_targets": []}),
        ('{"peft_type": "LORA", "r": 4, "bias": "none"}', {"model.method": "lora", "model.lora_rank": 4}),
        ('{"deepspeed": {"zero_optimization": {"stage": 3}}}', {"memory.deepspeed": "zero-3"}),
        ("run_glue.py --fp16 ^\r\n  --seed 7", {"device.precision": "fp16", "training.seed": 7}),
        ("SFTConfig(seed=3)\nDataLoader(data, batch_size=64)", {"training.seed": 3}),
    ],
)
def test_forms_that_people_have(text: str, options: dict[str, Any]) -> None:
    imported = import_text(text)
    assert options_of(imported) == options
    assert imported.problems == ()


def test_what_a_script_computes_is_said_and_never_run() -> None:
    imported = import_text("TrainingArguments(learning_rate=2 * best, seed=..., fp16=use_fp16(), bf16=False)")
    assert "set it by hand" in reason(imported, "learning_rate")
    assert imported.taken == ()


@pytest.mark.parametrize("text", ["f(a={[]: 1})", '{"cells": []}', '{"a": null}', "Config(**x)"])
def test_odd_texts_are_refused_plainly(text: str) -> None:
    with pytest.raises(OptionsError, match="1 problem"):
        import_text(text)


def test_values_that_do_not_fit_are_problems_and_not_in_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "arguments.json"
    script.write_text('{"seed": [null], "num_train_epochs": 2}')
    assert main(["new", "--from", str(script)]) == 1
    printed = capsys.readouterr()
    assert "epochs = 2" in printed.out
    assert "seed" not in printed.out
    assert "training.seed" in printed.err


def test_what_is_not_written_out_is_said() -> None:
    imported = import_text('AutoModel.from_pretrained("bert-base-cased")\nTrainingArguments(seed=1, **more)')
    assert options_of(imported) == {"model.source": "bert-base-cased", "training.seed": 1}
    assert reason(imported, "**") == "the script computes these; set them by hand"


class TestTheCommand:
    def test_prints_a_run_file_that_reads_back(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        script = tmp_path / "train.sh"
        script.write_text(RUN_GLUE)
        assert main(["new", "--from", str(script)]) == 0
        printed = capsys.readouterr()
        assert "LEFT OUT" in printed.err
        made = tmp_path / "made.hone"
        made.write_text(printed.out)
        assert run_file.read_tree(made)["training"]["learning_rate"] == 2e-5

    def test_never_writes_over_a_file_and_says_what_can_not_be(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        script, made = tmp_path / "arguments.json", tmp_path / "made.hone"
        script.write_text('{"fp16": true, "bf16": true}')
        assert main(["new", "--from", str(script), "-o", str(made)]) == 1
        assert "bf16 and fp16 exclude each other" in capsys.readouterr().err
        assert main(["new", "--from", str(script), "-o", str(made)]) == 2
        assert main(["new", "--from", str(tmp_path / "none.json")]) == 2


class TestOldNamesInARunFile:
    def test_are_understood_where_they_stand(self) -> None:
        tree = {
            "memory": {"gradient_checkpointing": True},
            "per_device_train_batch_size": 4,
            "training": {"optimizer": "adamw_torch_fused", "bf16": True},
        }
        renamed = in_our_words(tree)
        assert renamed.tree == {
            "memory": {"activation_checkpointing": True, "batch_size": 4},
            "training": {"optimizer": "adamw"},
            "device": {"precision": "bf16"},
        }
        assert any(
            "gradient_checkpointing is memory.activation_checkpointing" in note for note in renamed.notes
        )
        assert tree["memory"] == {"gradient_checkpointing": True}, "the tree that came in is left alone"

    def test_that_say_two_things_are_a_problem(self) -> None:
        tree = in_our_words({"task": "text-classification", "device": {"fp16": True, "bf16": True}}).tree
        _, problems = check_tree(tree)
        [message] = [problem.message for problem in problems if problem.path == "device.bf16"]
        assert (
            message
            == "asks for device.precision = bf16, but device.precision = fp16 is asked for too; keep one"
        )

    def test_packed_in_two_ways_name_the_option_that_clashes(self) -> None:
        tree = in_our_words({"task": "text-classification", "load_in_4bit": True, "load_in_8bit": True}).tree
        _, problems = check_tree(tree)
        [message] = [problem.message for problem in problems if problem.path == "load_in_8bit"]
        assert "model.quantization = int8, but model.quantization = nf4" in message

    def test_that_mean_nothing_any_more_are_explained(self) -> None:
        _, problems = check_tree(
            {"task": "text-classification", "training": {"evaluation_strategy": "epoch"}}
        )
        messages = {problem.path: problem.message for problem in problems}
        assert "eval_strategy today" in messages["training.evaluation_strategy"]

    def test_set_on_the_command_line_go_before_the_file(self, tmp_path: Path) -> None:
        path = tmp_path / "run.hone"
        path.write_text(
            'task = "image-classification"\n[model]\nsource = "torchvision:alexnet"\n'
            '[data]\ntrain = "builtin:digits"\n[memory]\ngradient_checkpointing = true\n'
        )
        assert run_file.read(path).memory.activation_checkpointing
        assert not run_file.read(path, ("gradient_checkpointing=false",)).memory.activation_checkpointing
        assert run_file.read(path, ("training.optim=adafactor",)).training.optimizer == "adafactor"
        assert run_file.read(path, ("fp16=false",)).device.precision == "auto"
        with pytest.raises(OptionsError) as refused:
            run_file.read(path, ("fp16=true", "bf16=true"))
        assert "keep one" in refused.value.detail
        assert run_file.renamings(path, ("use_cpu=true",))[-1] == "use_cpu is device.name = cpu here"
        assert run_file.renamings(path) == (
            "gradient_checkpointing is memory.activation_checkpointing = true here: "
            "it is activation_checkpointing in Trainer today",
        )


@pytest.mark.parametrize(
    ("name", "task"),
    [("mrpc", "text-classification"), ("STSB", "text-regression"), ("other", "text-classification")],
)
def test_which_of_glue_s_tasks_is_a_regression_is_known(name: str, task: str) -> None:
    found = import_text(f"run_glue.py --task_name {name} --learning_rate 2e-5")
    assert (found.tree["task"], found.problems) == (task, ())
