"""Scripts: each task's compiles, is short and clean, says what was asked; two of them really train."""

import ast
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.base.errors import DataError, OptionsError
from core.engine.data import image_files
from core.engine.script import comment, write_script
from core.options import RunOptions
from core.options.catalogue import all_options, options_by_path, value_of, with_changes
from core.options.choices import (
    Augmentation,
    FrozenPrecision,
    Method,
    Precision,
    PreferenceLoss,
    Quantization,
    Task,
    Toggle,
)
from core.options.data import DataOptions
from core.options.declare import Kind, Option
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.runs.events import WhatRan
from core.runs.folder import RunFolder
from core.sharing.script import Script, ScriptRequest, script_of_run
from tests.fakes.models import (
    instructions,
    pairs,
    rated,
    save_tiny_bert,
    save_tiny_talker,
    write_json,
    write_text,
)
from tests.fakes.runs import write_events
from tests.fakes.training import write_data, write_reviews

TALKS = [
    {"conversations": [{"from": "human", "value": f"Say {row}."}, {"from": "gpt", "value": f"{row}!"}]}
    for row in range(12)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data and models, by what they are."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "scores").mkdir()
    (folder / "words").mkdir()
    return {
        "bert": str(save_tiny_bert(folder / "bert")),
        "talker": str(save_tiny_talker(folder / "talker")),
        "reviews": str(write_reviews(folder / "reviews.csv", 40)),
        "scores": write_data(folder / "scores", Task.TEXT_REGRESSION, 24),
        "words": write_data(folder / "words", Task.TOKEN_CLASSIFICATION, 24),
        "text": str(write_text(folder / "text.txt", 30)),
        "instructions": str(write_json(folder / "instructions.json", instructions())),
        "talks": str(write_json(folder / "talks.json", TALKS)),
        "pairs": str(write_json(folder / "pairs.json", pairs())),
        "rated": str(write_json(folder / "rated.json", rated())),
    }


def options(task: Task, model: str, data: str, **more: Any) -> RunOptions:
    method = more.pop("method", Method.FULL)
    return RunOptions(
        task=task,
        model=ModelOptions(source=model, method=method, pretrained=not model.startswith("torchvision:")),
        data=DataOptions(train=data, max_length=64, workers=0, **more),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
        training=TrainingOptions(max_steps=3, learning_rate=1e-2),
        memory=MemoryOptions(batch_size=8),
    )


def preferences(model: str, data: str, loss: PreferenceLoss) -> RunOptions:
    asked = options(Task.PREFERENCE, model, data, method=Method.LORA)
    return with_changes(asked, {"training.preference_loss": loss})


CASES: dict[str, Callable[[dict[str, str]], RunOptions]] = {
    "texts": lambda made: options(Task.TEXT_CLASSIFICATION, made["bert"], made["reviews"]),
    "lora": lambda made: options(Task.TEXT_CLASSIFICATION, made["bert"], made["reviews"], method=Method.LORA),
    "scores": lambda made: options(Task.TEXT_REGRESSION, made["bert"], made["scores"], method=Method.HEAD),
    "words": lambda made: options(Task.TOKEN_CLASSIFICATION, made["bert"], made["words"]),
    "digits": lambda _made: options(Task.IMAGE_CLASSIFICATION, "torchvision:resnet18", "builtin:digits"),
    "text": lambda made: options(Task.CAUSAL_LM, made["talker"], made["text"]),
    "chat": lambda made: options(Task.CHAT, made["talker"], made["instructions"], method=Method.LORA),
    "talks": lambda made: options(Task.CHAT, made["talker"], made["talks"], packing=True),
    "preferences": lambda made: options(Task.PREFERENCE, made["talker"], made["pairs"], method=Method.LORA),
    "rated": lambda made: preferences(made["talker"], made["rated"], PreferenceLoss.KTO),
    "odds-ratio": lambda made: preferences(made["talker"], made["pairs"], PreferenceLoss.ORPO),
    "random": lambda made: options(Task.TEXT_CLASSIFICATION, made["bert"], "synthetic:16x8"),
    "from-nothing": lambda made: options(Task.CAUSAL_LM, "scratch:llama-tiny", made["text"]),
}


def script(asked: RunOptions, **more: Any) -> str:
    request = ScriptRequest(asked=msgspec.to_builtins(asked), device="cpu", **more)
    return write_script(request, asked).text


def test_scripts_are_short_and_clean(made, tmp_path):
    for case, options_of in CASES.items():
        text = script(options_of(made))
        compile(text, case, "exec")
        assert len([line for line in text.splitlines() if line]) <= 100, case
        (tmp_path / f"{case}.py").write_text(text, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "check", "--isolated", "--select", "F", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_scripts_train_without_hone(made, tmp_path):
    cases = {"texts": 2, "chat": 3, "rated": 3, "odds-ratio": 3}
    never_better = {
        "training.eval_steps": 1.0,
        "training.early_stopping_patience": 1,
        "training.early_stopping_threshold": 9.0,
    }
    for case, steps in cases.items():
        asked = with_changes(CASES[case](made), never_better if steps == 2 else {})
        (tmp_path / f"{case}.py").write_text(script(asked), encoding="utf-8")
    driver = (
        "import json, runpy, sys\n"
        "for name in sys.argv[1:]:\n"
        "    done = runpy.run_path(name, run_name='__main__')\n"
        "    print('LOGGED', json.dumps(done['trainer'].state.log_history))\n"
        "assert not {'core', 'gui'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", driver, *(f"{case}.py" for case in cases)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_OFFLINE": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "model" / "adapter_model.safetensors").is_file()
    logs = [json.loads(line[7:]) for line in done.stdout.splitlines() if line.startswith("LOGGED ")]
    assert len(logs) == len(cases)
    for log, steps in zip(logs, cases.values(), strict=True):
        losses = [entry["loss"] for entry in log if "loss" in entry]
        assert len(losses) == steps
        assert all(0 < loss < 20 for loss in losses)
        assert any("eval_loss" in entry for entry in log)


NOT_TRAINING = {"output.predictions", "output.prompts", "output.name"}
FOUND_IN_DATA = {
    *("data.columns", "data.header", "data.train_split", "data.eval_split", "data.image_column"),
    *("data.chat_template", "data.train", "data.eval", "model.source"),
}
"""Options that reach a script through what the data comes to."""
VALUES: dict[str, Any] = {
    "model.lora_targets": ("query",),
    "device.precision": Precision.BF16,
    "device.compile_backend": "eager",
    "device.compile_mode": "max-autotune",
    "device.threads": 3,
    "device.processes": 2,
    "device.name": "mps",
    "memory.offload_folder": "/fast",
    "data.roles": {"client": "user"},
    "data.label_names": {"no": "negative"},
    "data.text_columns": ("label",),
    "data.label_column": "text",
    "data.pad_to_multiple_of": 16,
    "model.quantization": Quantization.INT8,
    "model.frozen_precision": FrozenPrecision.BF16,
}
BESIDE: dict[str, dict[str, Any]] = {
    "model.vocabulary": {"task": Task.CAUSAL_LM},
    "data.prefetch": {"data.workers": 2},
    "memory.offload_folder": {"memory.deepspeed": "zero-3", "memory.offload": "nvme"},
    "memory.offload": {"memory.deepspeed": "zero-2"},
    "training.early_stopping_threshold": {"training.early_stopping_patience": 2},
    "training.metric_for_best_model": {"output.keep_best": True},
    "output.save_steps": {"output.keep_checkpoints": 1},
    "data.roles": {"task": Task.CHAT},
    "data.loss_on": {"task": Task.CHAT},
}
DATA = {
    Task.TEXT_CLASSIFICATION: ("bert", "reviews"),
    Task.IMAGE_CLASSIFICATION: ("torchvision:resnet18", "builtin:digits"),
    Task.CAUSAL_LM: ("scratch:llama-tiny", "text"),
    Task.CHAT: ("talker", "talks"),
    Task.PREFERENCE: ("talker", "pairs"),
}


def needs(option: Option) -> dict[str, Any]:
    found = {**BESIDE.get(option.path, {}), **{path: values[0] for path, values in option.needs.items()}}
    further = {
        path: value
        for name in found
        if name != "task"
        for path, value in needs(options_by_path()[name]).items()
    }
    return {**further, **found, **BESIDE.get(option.path, {})}


def other(option: Option, now: Any) -> Any:
    if option.path in VALUES:
        return VALUES[option.path]
    match option.kind:
        case Kind.SWITCH:
            return not now
        case Kind.CHOICE:
            return next(value for value in option.value_type if value not in (now, "auto"))
        case Kind.WHOLE:
            return 1 if now is None else now + 1
    return now / 2 or 0.25


@pytest.mark.parametrize(
    "option",
    [one for one in all_options() if one.section and one.path not in NOT_TRAINING | FOUND_IN_DATA],
    ids=lambda option: option.path,
)
def test_each_option_changes_the_script(option, made):
    beside = needs(option)
    task = beside.pop("task", Task.TEXT_CLASSIFICATION)
    model, data = (made.get(name, name) for name in DATA[task])
    before = with_changes(options(task, model, data), beside)
    assert option.applies_to(before)
    after = with_changes(before, {option.path: other(option, value_of(before, option.path))})
    device = "mps" if option.group == "Apple GPU" else "cpu"
    texts = [
        write_script(ScriptRequest(asked={}, device=place), asked).text
        for asked, place in ((before, device), (after, "mps" if option.path == "device.name" else device))
    ]
    compile(texts[1], "script.py", "exec")
    assert texts[0] != texts[1]


@pytest.mark.parametrize("strength", [Augmentation.LIGHT, Augmentation.STRONG])
def test_a_script_augments_images_as_hone_does(strength, made):
    from torchvision.transforms import v2

    asked = with_changes(CASES["digits"](made), {"data.augmentation": strength, "data.horizontal_flip": True})
    [line] = [line for line in script(asked).splitlines() if line.startswith("changes = ")]
    theirs = eval(line.partition(" = ")[2], {"v2": v2, "floats": None})
    ours = [
        *image_files._changes(strength, True, 0)[0].transforms,
        image_files._changes(strength, True, 0)[1],
    ]
    written = {type(one): vars(one) for one in theirs if one is not None}
    for one in ours:
        if type(one) in written and not isinstance(one, v2.RandAugment):  # whose tables can't be compared
            assert repr(one) == repr(next(other for other in theirs if type(other) is type(one)))
    assert set(written) == {type(one) for one in ours} - {v2.RandomHorizontalFlip, v2.Identity}


def test_what_was_chosen_for_a_run_is_stated_in_its_script_and_nothing_else_of_it(tmp_path):
    requests: list[ScriptRequest] = []

    def engine(_name: str, request: bytes) -> bytes:
        requests.append(msgspec.json.decode(request, type=ScriptRequest))
        return msgspec.json.encode(Script("text"))

    run = RunFolder(tmp_path)
    run.options_file.write_text('schema = 1\ntask = "text-classification"\n', encoding="utf-8")
    ran = WhatRan(
        device="cuda:0\"; print('here')  #",
        device_name="AMD EPYC",
        parameter_dtype="float32",
        autocast_dtype="bfloat16",
        optimizer="AdamW",
        optimizer_state_bytes=0,
        trainable_parameters=1,
        total_parameters=1,
        effective_batch=1,
        attention="eager",
        reasons={"device.precision": "bf16: in hardware", "device.threads": "3; print('here'): why"},
    )
    write_events(run.events_file, ran)
    assert script_of_run(run, engine) == "text"
    [request] = requests
    device, model = request.asked["device"], request.asked["model"]
    assert (request.device, device["precision"], device["threads"]) == ("cpu", "bf16", None)
    assert (model["attention"], request.notes) == ("eager", ("device.precision = bf16: in hardware",))


def test_pairs_are_not_grouped_by_a_length_that_they_lack(made):
    pairs = options(Task.PREFERENCE, made["talker"], made["pairs"], group_by_length=Toggle.ON)
    assert "train_sampling_strategy" not in script(pairs)


def test_without_data_there_is_no_script(made):
    with pytest.raises(OptionsError) as refused:
        script(options(Task.TEXT_CLASSIFICATION, made["bert"], ""))
    assert [problem.path for problem in refused.value.problems] == ["data.train"]


def test_an_exported_chat_has_no_script(made, tmp_path):
    chat = {"chat_messages": [{"sender": who, "text": "Hi"} for who in ("human", "assistant")]}
    exported = str(write_json(tmp_path / "conversations.json", [chat] * 12))
    with pytest.raises(DataError, match="Only Hone reads its chats"):
        script(options(Task.CHAT, made["talker"], exported))


def test_a_strangers_text_is_never_code(made, tmp_path):
    nasty = 'a\n"\'); print("here")  # {{ seed }} {% raw %}'
    path = tmp_path / "odd.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([(nasty, "label"), *((f"good {row}", str(row % 2)) for row in range(12))])
    versions = {"torch": "2\nprint()", "peft": "0.21 evil", "trl": "1.16.0"}
    train = options(Task.TEXT_CLASSIFICATION, made["bert"], str(path))
    text = script(train, title=nasty, notes=(nasty,), versions=versions)
    assert "print" not in {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    assert "pip install trl==1.16.0 scikit-learn" in text
    assert all(line.startswith("#") for line in comment(nasty))
