"""No option is dropped silently: each changes the script, or stands in a list of those that change nothing about it."""

import re
from typing import Any

import msgspec
import pytest

from core.catalogue import Kind, Option, all_options, options_by_path, value_of
from core.choices import Method, Optimizer, Precision, Schedule, Task, Toggle
from core.engine.arguments import trainer_arguments
from core.engine.devices import Choice
from core.engine.environment import mps_watermarks
from core.events import WhatRan
from core.options import DataOptions, DeviceOptions, MemoryOptions, ModelOptions, RunOptions, TrainingOptions
from core.script.arguments import arguments
from core.script.coverage import NO_EFFECT, RESOLVED
from core.script.facts import Conversations, Form, Rows, ScriptFacts
from core.script.head import watermarks
from core.script.parts import comment, literal
from core.script.resolved import Resolved, as_it_ran
from core.script.writing import write_script

TABLE = Rows(files=("/data/rows.csv",), form=Form.DELIMITED, delimiter=",", columns=("text", "label"))
FACTS: dict[Task, ScriptFacts] = {
    Task.TEXT_CLASSIFICATION: ScriptFacts(rows=TABLE, text_columns=("text",), label_column="label"),
    Task.CAUSAL_LM: ScriptFacts(rows=Rows(files=("/data/text.txt",), form=Form.TEXT)),
    Task.CHAT: ScriptFacts(
        rows=Rows(files=("/data/talks.jsonl",), form=Form.JSON_LINES),
        conversations=Conversations(columns={"prompt": "question", "answer": "reply"}, chatml="{{ x }}"),
    ),
    Task.PREFERENCE: ScriptFacts(
        rows=Rows(files=("/data/pairs.jsonl",), form=Form.JSON_LINES),
        conversations=Conversations(
            columns={"prompt": "q", "chosen": "a", "rejected": "b"}, chatml="{{ x }}"
        ),
    ),
    Task.IMAGE_CLASSIFICATION: ScriptFacts(),
}
VALUES: dict[str, Any] = {
    "model.source": "other",
    "model.lora_targets": ("query",),
    "data.train": "/data/more.csv",
    "device.name": "cuda:1",
    "device.precision": Precision.BF16,
    "device.compile_backend": "eager",
    "device.compile_mode": "max-autotune",
    "memory.offload_folder": "/fast",
    "data.roles": {"client": "user"},
    "output.name": "Another name",
    "task": Task.TEXT_REGRESSION,
}
BESIDE: dict[str, dict[str, Any]] = {
    "model.vocabulary": {"model.source": "scratch:bert-tiny"},
    "data.prefetch": {"data.workers": 2},
    "data.max_eval_samples": {"data.eval_fraction": 0.2},
}
"""What has to be beside an option for it to mean anything, where its own declaration doesn't say so."""


def plain(option: Option) -> RunOptions:
    """A run beside which an option means something."""
    of_images = option.needs.get("task") == (Task.IMAGE_CLASSIFICATION,)
    options = RunOptions(
        task=Task.IMAGE_CLASSIFICATION if of_images else Task.TEXT_CLASSIFICATION,
        model=ModelOptions(source="torchvision:resnet18" if of_images else "/models/bert"),
        data=DataOptions(
            train="builtin:digits" if of_images else "/data/rows.csv", workers=0, group_by_length=Toggle.OFF
        ),
        device=DeviceOptions(precision=Precision.FP32),
    )
    for path, value in BESIDE.get(option.path, {}).items():
        options = changed(options, path, value)
    for path, needed in reversed(needs(option)):
        if value_of(options, path) not in needed:
            options = changed(options, path, needed[0])
    return options


def needs(option: Option) -> list[tuple[str, tuple[Any, ...]]]:
    found = list(option.needs.items())
    return found + [further for path, _ in found for further in needs(options_by_path()[path])]


def changed(options: RunOptions, path: str, value: Any) -> RunOptions:
    section, _, name = path.rpartition(".")
    if not section:
        return msgspec.structs.replace(options, **{name: value})
    replaced = msgspec.structs.replace(getattr(options, section), **{name: value})
    return msgspec.structs.replace(options, **{section: replaced})


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
        case Kind.NUMBER:
            return now / 2 or 0.25
    return pytest.fail(f"{option.path} needs a line in VALUES")


def script(options: RunOptions, option: Option) -> str:
    asked = options.device.name
    device = "mps" if option.group == "Apple GPU" else "cpu" if asked == "auto" else asked
    facts = FACTS.get(options.task, FACTS[Task.TEXT_CLASSIFICATION])
    return write_script(Resolved(options, device), facts)


@pytest.mark.parametrize("option", all_options(), ids=lambda option: option.path)
def test_each_option_is_in_the_script_or_in_a_list(option: Option) -> None:
    options = plain(option)
    before = script(options, option)
    compile(before, "script.py", "exec")
    if option.path in NO_EFFECT or option.path in RESOLVED:
        return
    assert option.applies_to(options)
    after = script(changed(options, option.path, other(option, value_of(options, option.path))), option)
    compile(after, "script.py", "exec")
    assert after != before


def test_the_lists_name_options() -> None:
    assert set(NO_EFFECT) | set(RESOLVED) <= set(options_by_path())
    assert not set(NO_EFFECT) & set(RESOLVED)


VARIED = (
    RunOptions(task=Task.TEXT_CLASSIFICATION),
    RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        memory=MemoryOptions(batch_size=3, gradient_accumulation_steps=4, activation_checkpointing=True),
        training=TrainingOptions(
            optimizer=Optimizer.SGD, schedule=Schedule.CONSTANT, warmup=5, max_steps=7, deterministic=True
        ),
        data=DataOptions(group_by_length=Toggle.ON, workers=2, prefetch=3, pin_memory=Toggle.ON),
        device=DeviceOptions(precision=Precision.BF16),
    ),
    RunOptions(
        task=Task.TEXT_CLASSIFICATION,
        model=ModelOptions(method=Method.LORA),
        training=TrainingOptions(
            optimizer=Optimizer.ADEMAMIX, schedule=Schedule.INVERSE_SQRT, weight_decay=0.1
        ),
        device=DeviceOptions(precision=Precision.TF32),
    ),
)


@pytest.mark.parametrize("options", VARIED)
@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_arguments_are_those_of_hones_own_trainer(options: RunOptions, device: str, tmp_path: Any) -> None:
    hone = trainer_arguments(Choice(device, "", options, {}, asked="auto"), tmp_path, has_eval=False)
    written = arguments(Resolved(options, device), has_eval=False)
    of_their_own = {"output_dir", "logging_strategy", "logging_steps", "save_total_limit"}
    asked = {name: value for name, value in hone.items() if value is not None}
    unsaid = {"disable_tqdm", "dataloader_persistent_workers", "dataloader_multiprocessing_context"}
    for name in asked.keys() - of_their_own - unsaid:
        assert written[name] == asked[name], name
    assert written.keys() - asked.keys() <= of_their_own
    assert [watermarks(limit) for limit in (0.0, 1.0, 1.7)] == [
        mps_watermarks(limit) for limit in (0.0, 1.0, 1.7)
    ]


def test_what_was_left_to_hone_is_what_ran() -> None:
    ran = WhatRan(
        device="cpu",
        device_name="AMD EPYC",
        parameter_dtype="float32",
        autocast_dtype="bfloat16",
        optimizer="AdamW",
        optimizer_state_bytes=0,
        trainable_parameters=1,
        total_parameters=1,
        effective_batch=1,
        attention="eager",
        reasons={
            "device.name": "CUDA comes first, then MPS, then the CPU",
            "device.precision": "bf16: this CPU computes bf16 in hardware",
            "data.workers": "0: the cores are busy computing",
            "device.threads": "3: one for each core",
        },
    )
    found = as_it_ran(RunOptions(task=Task.TEXT_CLASSIFICATION), ran, {})
    assert (found.kind, found.options.device.precision, found.options.device.threads) == ("cpu", "bf16", 3)
    assert (found.options.data.workers, found.options.model.attention) == (0, "eager")
    text = write_script(found, FACTS[Task.TEXT_CLASSIFICATION])
    assert "# - device.precision = bf16: this CPU computes bf16 in hardware" in text
    assert "bf16=True" in text
    assert "torch.set_num_threads(3)" in text


def test_what_a_strangers_run_tells_becomes_no_line_of_a_script() -> None:
    told = {
        "type": "what_ran",
        "time": 1.0,
        "attempt": 1,
        "device": "cuda:0\"; print('here')  #",
        "device_name": "a\nprint('here')",
        "parameter_dtype": "float32",
        "autocast_dtype": None,
        "optimizer": "AdamW",
        "optimizer_state_bytes": 0,
        "trainable_parameters": 1,
        "total_parameters": 1,
        "effective_batch": 1,
        "reasons": {"device.threads": "3; print('here'): why", "device.name": "a\nprint('here')"},
    }
    ran = msgspec.convert(told, WhatRan)
    found = as_it_ran(RunOptions(task=Task.TEXT_CLASSIFICATION), ran, {"torch": "2\nprint('here')"})
    assert found.device == "cpu"
    text = write_script(found, FACTS[Task.TEXT_CLASSIFICATION])
    assert [line for line in text.splitlines() if "('here')" in line and line[:1] != "#"] == []
    compile(text, "script.py", "exec")


def test_names_stay_names() -> None:
    for nasty in ('a"b', "a\\n", "a\nb", "'''", '"""', "\x00", "\u2028", "é", "C:\\x\\"):
        assert eval(literal(nasty)) == nasty
        assert all(line.startswith("#") for line in comment(f"run {nasty} here"))
        assert "\n" not in "".join(comment(f"run {nasty} here"))


def test_only_versions_are_named_as_such() -> None:
    versions = {
        "torch": "2.13.0+cpu",
        "peft": "2.13 evil-package",
        "trl": "1.0; rm -rf /",
        "datasets": "5.2.0rc1.post2",
    }
    found = Resolved(RunOptions(task=Task.TEXT_CLASSIFICATION), "cpu", versions=versions)
    text = write_script(found, FACTS[Task.TEXT_CLASSIFICATION])
    assert "pip install torch==2.13.0 datasets==5.2.0rc1.post2\n" in text


@pytest.mark.parametrize("pretrained", [True, False])
@pytest.mark.parametrize("task", [Task.TEXT_CLASSIFICATION, Task.CAUSAL_LM, Task.CHAT])
def test_a_script_runs_no_code_of_a_model_and_opens_no_pickle(task: Task, pretrained: bool) -> None:
    asked = RunOptions(task=task, model=ModelOptions(source="someone/model", pretrained=pretrained))
    text = write_script(Resolved(asked, "cpu"), FACTS[task])
    loads = re.findall(r"Auto\w+\.from_\w+\((?:[^()]|\([^()]*\))*\)", text)
    assert len(loads) >= 2
    assert [load for load in loads if "trust_remote_code=False" not in load] == []
    weights = [load for load in loads if re.match(r"AutoModel\w+\.from_pretrained", load)]
    assert len(weights) == pretrained
    assert [load for load in weights if "use_safetensors=True" not in load] == []
