"""Scripts: they train as their runs did, to the last digits, are clean, and say what was asked and what differs."""

import ast
import csv
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image

from core.base.errors import OptionsError
from core.engine.data import image_files
from core.engine.script import PACKAGES, comment, write_script
from core.jobs.script import Script, ScriptRequest
from core.options import RunOptions, run_file
from core.options.catalogue import all_options, options_by_path, value_of, with_changes
from core.options.choices import (
    Augmentation,
    FrozenPrecision,
    ImageFit,
    Method,
    Optimizer,
    Padding,
    Precision,
    PreferenceLoss,
    Quantization,
    Task,
    Toggle,
)
from core.options.data import DataOptions
from core.options.declare import Option, OptionKind
from core.options.sections import DeviceOptions, MemoryOptions, ModelOptions, TrainingOptions
from core.runs.folder import RunFolder
from core.sharing.script import save_script, save_script_of_run
from tests.fakes.bare import link_packages, run_bare
from tests.fakes.models import (
    instructions,
    pairs,
    rated,
    save_tiny_bert,
    save_tiny_talker,
    save_tiny_vision,
    write_json,
    write_text,
)
from tests.fakes.runs import what_ran, write_events
from tests.fakes.trained_runs import attempt, story_of
from tests.fakes.training import run_options, write_data, write_reviews

pytestmark = pytest.mark.usefixtures("light_runs")

TURNED = Path(__file__).parents[2] / "data" / "turned.heic"

TALKS = [
    {
        "conversations": [
            {"from": "human", "value": f"Say {row}."},
            {"from": "gpt", "value": f"{row}!" * (1 + row % 3)},
            {"from": "human", "value": "Again."},
            {"from": "gpt", "value": f"{row}." if row else ""},
        ]
    }
    for row in range(18)
]
"""The first has an empty answer, for which it is left out or refused."""
HARMLESS = [
    {
        name: f"\n\nHuman: Say {row}.\n\nAssistant: {row}!\n\nHuman: Again.\n\nAssistant: {last}"
        for name, last in (("chosen", f"{row}, gladly."), ("rejected", "No." * (1 + row % 2)))
    }
    for row in range(20)
]
DROPS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
"""Random numbers that are drawn in another order show in the losses."""


def without_pooler(folder: Path) -> Path:
    """A Bert whose checkpoint lacks a part of the body that a classifier of texts has."""
    from transformers import BertForTokenClassification

    BertForTokenClassification.from_pretrained(save_tiny_bert(folder, **DROPS)).save_pretrained(folder)
    return folder


def write_gaps(path: Path) -> Path:
    """Reviews with two rows that have no label, and two that came before."""
    lines = write_reviews(path, 24).read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, *lines[1:3], "good story,", "bad film,"]) + "\n", encoding="utf-8")
    return path


def write_images(folder: Path) -> Path:
    """Two classes of images in colours, grey, 16 bits of grey, and turned by their EXIF."""
    random = np.random.default_rng(0)
    for number in range(20):
        path = folder / ("bright", "dark")[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = random.integers(0, 256, (40, 30 + number, 3)) // (1 + number % 2)
        match number % 4:
            case 0:
                image = Image.fromarray((pixels[..., 0] * 200).astype(np.uint16))
            case 1:
                image = Image.fromarray(pixels[..., 0].astype(np.uint8))
            case _:
                image = Image.fromarray(pixels.astype(np.uint8))
        exif = Image.Exif()
        exif[0x0112] = 6 if number % 3 == 0 else 1
        image.save(path, exif=exif)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Data and models, by what they are."""
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "scores").mkdir()
    (folder / "words").mkdir()
    return {
        "bert": str(save_tiny_bert(folder / "bert", **DROPS)),
        "wide-bert": str(save_tiny_bert(folder / "wide-bert", **DROPS, hidden_size=64, intermediate_size=96)),
        "headless": str(without_pooler(folder / "headless")),
        "vit": str(save_tiny_vision(folder / "vit", hidden_dropout_prob=0.1)),
        "talker": str(save_tiny_talker(folder / "talker", attention_dropout=0.1)),
        "wide-talker": str(save_tiny_talker(folder / "wide-talker", hidden_size=64, head_dim=32)),
        "images": str(write_images(folder / "images")),
        "gaps": str(write_gaps(folder / "gaps.csv")),
        "harmless": str(write_json(folder / "harmless.json", HARMLESS)),
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
        data=DataOptions(train=data, max_length=160 if task.writes_text else 64, workers=0, **more),
        device=DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
        training=TrainingOptions(max_steps=3, learning_rate=1e-2),
        memory=MemoryOptions(batch_size=8),
    )


@pytest.fixture
def script(tmp_path):
    """Writes a script and returns its text; all of it lies in `script.folder`."""

    class Writer:
        def __init__(self) -> None:
            self.folder = tmp_path / "script"

        def __call__(self, asked: RunOptions, device: str = "cpu", **more: Any) -> str:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir()
            request = ScriptRequest(asked={}, folder=str(self.folder), device=device, **more)
            return write_script(request, asked).text

    return Writer()


# --- The script of a run is the run


SHORT: dict[str, Any] = {
    **{"batch_size": 4, "max_steps": 3, "eval_fraction": 0.25, "eval_steps": 2.0, "max_train_samples": 32},
    **{"predictions": 2, "keep_checkpoints": 0},
}
LORA = {"method": Method.LORA, "lora_rank": 4, "lora_dropout": 0.25}
QLORA = {**LORA, "method": Method.QLORA}
TWICE = {"batch_size": 2, "gradient_accumulation_steps": 2}
BY_LENGTH = {"group_by_length": Toggle.ON}
KTO, ORPO = ({"preference_loss": loss} for loss in (PreferenceLoss.KTO, PreferenceLoss.ORPO))
ROUNDED = {"padding": Padding.DYNAMIC, "pad_to_multiple_of": 8}
TEXTS, SCORES, WORDS = Task.TEXT_CLASSIFICATION, Task.TEXT_REGRESSION, Task.TOKEN_CLASSIFICATION
IMAGES, TEXT, CHAT, PAIRS = Task.IMAGE_CLASSIFICATION, Task.CAUSAL_LM, Task.CHAT, Task.PREFERENCE

RUNS: dict[str, tuple[Task, str, str, dict[str, Any]]] = {
    "texts": (TEXTS, "bert", "reviews", {}),
    "texts-skipping-rows": (TEXTS, "bert", "gaps", {"skip_bad_rows": True, "drop_duplicates": True}),
    "texts-by-length": (TEXTS, "bert", "reviews", {**BY_LENGTH, **ROUNDED, "epochs": 2.0, "max_steps": None}),
    "texts-accumulated": (TEXTS, "bert", "reviews", TWICE),
    "texts-last-layer": (TEXTS, "bert", "reviews", {"method": Method.HEAD}),
    "texts-LoRA-without-a-pooler": (
        TEXTS,
        "headless",
        "reviews",
        {**LORA, "lora_targets": ("query", "value")},
    ),
    "texts-QLoRA-without-a-pooler": (
        TEXTS,
        "headless",
        "reviews",
        {**QLORA, "quantization": Quantization.INT8},
    ),
    "texts-random-weights": (TEXTS, "bert", "reviews", {"pretrained": False}),
    "texts-from-scratch": (TEXTS, "scratch:bert-tiny", "reviews", {}),
    "texts-past-run": (TEXTS, "run:texts", "reviews", {}),
    "texts-past-run-with-an-adapter": (TEXTS, "run:texts-LoRA-without-a-pooler", "reviews", QLORA),
    "texts-made-up": (TEXTS, "bert", "synthetic:16x8", {"eval_fraction": 0.0}),
    "scores": (SCORES, "bert", "scores", {"optimizer": Optimizer.LION}),
    "scores-LoRA": (SCORES, "bert", "scores", LORA),
    "words": (WORDS, "bert", "words", TWICE),
    "words-LoRA": (WORDS, "bert", "words", {**LORA, **BY_LENGTH}),
    "images": (IMAGES, "vit", "images", {"weight_decay": 0.1}),
    "images-cropped": (IMAGES, "vit", "images", {"image_fit": ImageFit.CROP}),
    "images-LoRA": (IMAGES, "vit", "images", LORA),
    "images-past-run-with-an-adapter": (IMAGES, "run:images-LoRA", "images", {"method": Method.HEAD}),
    "digits": (IMAGES, "torchvision:resnet18", "builtin:digits", {"pretrained": False, "weight_decay": 0.1}),
    "digits-LoRA-on-a-past-run": (IMAGES, "run:digits", "builtin:digits", LORA),
    "text": (TEXT, "talker", "text", {"eval_steps": 1.0}),
    "text-LoRA": (TEXT, "talker", "text", {**LORA, **TWICE, "lora_layers": 1}),
    "text-from-scratch": (TEXT, "scratch:llama-tiny", "text", {"vocabulary": 300}),
    "chat": (CHAT, "talker", "instructions", {}),
    "chat-turns": (CHAT, "talker", "talks", {**LORA, **TWICE, "skip_bad_rows": True}),
    "chat-QLoRA": (CHAT, "wide-talker", "instructions", {**QLORA, **BY_LENGTH}),
    "chat-packed": (CHAT, "run:text", "instructions", {"packing": True, "pad_to_multiple_of": 8}),
    "chat-past-chat-run-with-an-adapter": (CHAT, "run:chat-turns", "talks", {**LORA, "skip_bad_rows": True}),
    "preferences": (PAIRS, "talker", "pairs", {}),
    "preferences-past-chat-run": (PAIRS, "run:chat-turns", "harmless", {**LORA, **BY_LENGTH}),
    "preferences-QLoRA": (PAIRS, "wide-talker", "pairs", QLORA),
    "ratings": (PAIRS, "talker", "rated", {**KTO, **LORA, **TWICE}),
    "odds-ratios": (PAIRS, "talker", "pairs", {**ORPO, **LORA, **TWICE}),
}
"""By name: task, model, data, and further options. Runs come after those whose models they start from."""


def ask_here(_job: str, request: bytes) -> bytes:
    asked = msgspec.json.decode(request, type=ScriptRequest)
    return msgspec.json.encode(write_script(asked, msgspec.convert(asked.asked, RunOptions)))


DRIVER = """
import gc, json, os, runpy, sys
here, found = os.getcwd(), {}
for name in sys.argv[1:]:
    os.chdir(os.path.join(here, name))
    found[name] = runpy.run_path("train.py", run_name="__main__")["trainer"].state.log_history
    if len(found) == 1:  # else accelerate searches the libraries for garbage at each run's end
        gc.collect()
        gc.freeze()
assert not {"core", "gui"} & set(sys.modules)
if os.environ.get("RANK", "0") == "0":
    print("LOGGED", json.dumps(found))
"""


def run_scripts(folder: Path, names: Iterable[str], processes: int = 1) -> dict[str, list[dict[str, float]]]:
    """Run the scripts in these folders where there is no Hone; what Trainer logged, by name."""
    driver = folder / "driver.py"
    driver.write_text(DRIVER, encoding="utf-8")
    several = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}")
    done = subprocess.run(
        [sys.executable, "-P", *(several if processes > 1 else ()), str(driver), *names],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    [line] = [line for line in done.stdout.splitlines() if line.startswith("LOGGED ")]
    return json.loads(line[7:])


def losses_of(logged: list[dict[str, float]], name: str = "loss") -> dict[int, float]:
    return {int(entry["step"]): entry[name] for entry in logged if name in entry}


@dataclass(frozen=True)
class Both:
    """A run and its script: its losses and validation losses by step, what Trainer logged, and the text."""

    losses: dict[int, float]
    judged: dict[int, float]
    logged: list[dict[str, float]]
    text: str


@pytest.fixture(scope="module")
def trained(made, tmp_path_factory):
    """What each run and its script logged: (step, loss) and (step, validation loss), by the name of the run."""
    home = tmp_path_factory.mktemp("home")
    scripts, stories = tmp_path_factory.mktemp("written"), {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HONE_HOME", str(home))
        (home / "runs").mkdir()
        for name, (task, model, data, more) in RUNS.items():
            asked = {**SHORT, "source": made.get(model, model), "train": made.get(data, data), **more}
            sizes = {"max_length": 160 if task.writes_text else 64, "image_size": 32}
            stories[name] = trained_and_written(home, scripts, name, run_options(task, **sizes, **asked))
        logged = run_scripts(scripts, RUNS)
    texts = {name: (scripts / name / "train.py").read_text(encoding="utf-8") for name in RUNS}
    return {name: Both(*stories[name], logged[name], texts[name]) for name in RUNS}


def trained_and_written(
    home: Path, scripts: Path, name: str, asked: RunOptions
) -> tuple[dict[int, float], dict[int, float]]:
    """Train a run in `home` and write its script; the losses and validation losses by step."""
    run = RunFolder(home / "runs" / name)
    run.path.mkdir()
    run_file.write(asked, run.options_file)
    assert attempt(run.path, asked) == 0, name
    save_script_of_run(run, scripts / name, ask_here)
    story = story_of(run)
    return (
        {step: told[0] for step, told in story.steps.items()},
        {step: told["eval_loss"] for step, told in story.evaluations.items()},
    )


@pytest.mark.parametrize("name", RUNS)
def test_the_script_of_a_run_has_its_losses_step_by_step(name, trained):
    found = trained[name]
    assert len(found.losses) >= 3
    assert losses_of(found.logged) == pytest.approx(found.losses, abs=1e-6)
    weighs_otherwise = "The validation loss is a mean over examples" in found.text
    assert weighs_otherwise is name.startswith("chat")
    if not weighs_otherwise:
        assert losses_of(found.logged, "eval_loss") == pytest.approx(found.judged, abs=1e-6)


def test_scripts_are_clean_and_name_all_that_they_import(trained, tmp_path):
    for name, found in trained.items():
        head, _blank, body = found.text.partition("\n\n")
        named = set(re.findall(r"([\w-]+)==", head))
        imported = {
            alias.name.partition(".")[0]
            if isinstance(node, ast.Import)
            else str(node.module).partition(".")[0]
            for node in ast.parse(body).body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        third = {PACKAGES.get(module, module) for module in imported - sys.stdlib_module_names}
        assert third - {"numpy", "safetensors"} <= named, name
        assert ("bitsandbytes" in named) is ("load_in_" in body), name
        assert all(line.startswith("#") for line in head.splitlines()), name
        (tmp_path / f"{name}.py").write_text(found.text, encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "check", "--isolated", "--select", "F", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("more", [(), ("torchvision",)])
def test_a_script_runs_with_the_packages_at_its_top_alone(made, script, tmp_path, more):
    """Also beside a torchvision that was built for another PyTorch."""
    text = script(options(Task.PREFERENCE, made["talker"], made["pairs"], method=Method.LORA))
    needed = re.findall(r"([\w-]+)==", text.partition("\n\n")[0])
    done = run_bare(link_packages(tmp_path / "site-packages", (*needed, *more)), script.folder / "train.py")
    assert done.returncode == 0, done.stderr
    assert (script.folder / "model" / "adapter_model.safetensors").is_file()


def test_what_differs_is_said_and_nothing_else(made, script):
    def differences(asked: RunOptions) -> list[str]:
        _head, _title, rest = script(asked).partition("# Differences from Hone:\n")
        return re.findall(r"^# - (.*)$", rest, re.MULTILINE)

    never = "It can't be paused, makes no memory forecast, and shows no predictions."
    texts = options(
        Task.TEXT_CLASSIFICATION, made["bert"], made["gaps"], skip_bad_rows=True, drop_duplicates=True
    )
    assert differences(texts) == [never], "rows that are left out are in no file of the script"
    chat = options(Task.CHAT, made["talker"], made["instructions"])
    assert differences(chat)[:-1] == [
        "The validation loss is a mean over examples; Hone's over the tokens that are learned."
    ]
    chat = with_changes(chat, {"data.eval_fraction": 0.0})
    assert differences(chat) == [never]
    digits = options(Task.IMAGE_CLASSIFICATION, "torchvision:resnet18", "builtin:digits")
    assert differences(digits) == [never]
    digits = with_changes(digits, {"data.augmentation": Augmentation.LIGHT})
    assert differences(digits)[:-1] == ["The random changes of data.augmentation are others."]
    words = options(Task.TOKEN_CLASSIFICATION, made["bert"], made["words"])
    assert differences(with_changes(words, {"device.processes": 2}))[1] == (
        "Dropout takes the same places in the examples of each process."
    )


ALONE = {"group_by_length": Toggle.OFF, "eval_steps": 2.0, "max_steps": 3, "keep_checkpoints": 0}


@pytest.mark.skipif(sys.platform != "linux", reason="several processes are started on Linux here")
def test_in_several_processes_a_script_has_the_losses_of_one(made, tmp_path, monkeypatch):
    """Of a model whose loss isn't divided by the labels of all processes, and of one whose labels differ in number."""
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    bert, talker = save_tiny_bert(tmp_path / "bert", **still), save_tiny_talker(tmp_path / "talker")
    (tmp_path / "runs").mkdir()
    (tmp_path / "scripts").mkdir()
    monkeypatch.setenv("HONE_HOME", str(tmp_path))
    runs = {
        "texts": run_options(
            Task.TEXT_CLASSIFICATION,
            source=bert,
            train=made["reviews"],
            eval_fraction=5 / 40,
            batch_size=8,
            **ALONE,
        ),
        "chat": run_options(
            Task.CHAT, source=talker, train=made["instructions"], max_length=160, batch_size=8, **ALONE
        ),
    }
    told = {name: trained_and_written(tmp_path, tmp_path, name, asked) for name, asked in runs.items()}
    for name, asked in runs.items():
        (tmp_path / "scripts" / name).mkdir()
        together = with_changes(asked, {"device.processes": 2, "memory.batch_size": 4})
        text = write_script(
            ScriptRequest(asked={}, folder=str(tmp_path / "scripts" / name), device="cpu"), together
        ).text
        assert "# Run: torchrun --standalone --nproc-per-node=2 train.py" in text
    logged = run_scripts(tmp_path / "scripts", runs, processes=2)
    for name, (losses, judged) in told.items():
        assert losses_of(logged[name]) == pytest.approx(losses, abs=1e-6)
        if name == "texts":
            assert losses_of(logged[name], "eval_loss") == pytest.approx(judged, abs=1e-6)


NOT_TRAINING = {"output.predictions", "output.prompts", "output.name", "device.backend"}
FOUND_IN_DATA = {
    *("data.columns", "data.header", "data.train_split", "data.eval_split", "data.image_column"),
    *("data.chat_template", "data.train", "data.eval", "model.source", "data.roles", "data.skip_bad_rows"),
}
"""Options that reach a script through what the data comes to."""
VALUES: dict[str, Any] = {
    "data.max_length": 4,
    "data.max_train_samples": 20,
    "model.lora_targets": ("query",),
    "device.precision": Precision.BF16,
    "device.compile_backend": "eager",
    "device.compile_mode": "max-autotune",
    "device.threads": 3,
    "device.processes": 2,
    "device.name": "mps",
    "memory.offload_folder": "/fast",
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
    "data.loss_on": {"task": Task.CHAT},
}
DATA = {
    Task.TEXT_CLASSIFICATION: ("bert", "reviews"),
    Task.IMAGE_CLASSIFICATION: ("torchvision:resnet18", "builtin:digits"),
    Task.CAUSAL_LM: ("scratch:llama-tiny", "text"),
    Task.CHAT: ("talker", "instructions"),
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
        case OptionKind.SWITCH:
            return not now
        case OptionKind.CHOICE:
            return next(value for value in option.value_type if value not in (now, "auto"))
        case OptionKind.WHOLE:
            return 1 if now is None else now + 1
    return now / 2 or 0.25


@pytest.mark.parametrize(
    "option",
    [one for one in all_options() if one.section and one.path not in NOT_TRAINING | FOUND_IN_DATA],
    ids=lambda option: option.path,
)
def test_each_option_changes_the_script_or_its_examples(option, made, script):
    beside = needs(option)
    task = beside.pop("task", Task.TEXT_CLASSIFICATION)
    model, data = (made.get(name, name) for name in DATA[task])
    before = with_changes(options(task, model, data), beside)
    assert option.applies_to(before)
    after = with_changes(before, {option.path: other(option, value_of(before, option.path))})
    device = "mps" if option.group == "Apple GPU" else "cpu"
    written = []
    for asked, place in ((before, device), (after, "mps" if option.path == "device.name" else device)):
        compile(script(asked, place), "script.py", "exec")
        files = (path for path in script.folder.rglob("*") if path.is_file())
        written.append({path.name: path.read_bytes() for path in files})
    assert written[0] != written[1]


def test_a_run_that_was_left_to_choose_its_device_has_the_same_script(made, script):
    """Layers that a CPU would unpack wrongly stay unpacked there, too."""
    asked = options(Task.TEXT_CLASSIFICATION, made["bert"], made["reviews"], method=Method.QLORA)
    assert script(with_changes(asked, {"device.name": "auto"})) == script(asked)


@pytest.mark.parametrize(("data", "has_paths"), [("images", True), ("builtin:digits", False)])
def test_images_that_stay_in_their_files_are_told_of(data, has_paths, made, script):
    asked = options(Task.IMAGE_CLASSIFICATION, made["vit"], made.get(data, data), image_size=32)
    head = script(asked).partition("\n\n")[0]
    assert ("Images in files stay where they are" in " ".join(head.split("\n#   "))) is has_paths


def test_a_script_needs_no_plugin_for_heic(made, script, tmp_path):
    for number in range(4):
        folder = tmp_path / "phone" / "ab"[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (60 * number, 0, 0)).save(folder / f"{number}.jpg")
        shutil.copy(TURNED, folder / f"{number}.heic")
    asked = options(Task.IMAGE_CLASSIFICATION, made["vit"], str(tmp_path / "phone"), image_size=32)
    assert "HEIF" not in script(with_changes(asked, {"data.eval_fraction": 0.0}))
    table = pyarrow.parquet.read_table(script.folder / "train.parquet").to_pylist()
    assert sum(row["path"] is None for row in table) == 4
    for row in table:
        with Image.open(row["path"] or io.BytesIO(row["bytes"]), formats=["JPEG", "PNG"]) as image:
            image.load()


@pytest.mark.parametrize("strength", [Augmentation.LIGHT, Augmentation.STRONG])
def test_a_script_augments_images_as_hone_does(strength, script):
    from torchvision.transforms import v2

    asked = options(Task.IMAGE_CLASSIFICATION, "torchvision:resnet18", "builtin:digits")
    asked = with_changes(asked, {"data.augmentation": strength, "data.horizontal_flip": True})
    lines = {
        line.strip().partition(" = ")[0]: line.partition(" = ")[2] for line in script(asked).splitlines()
    }
    names: dict[str, Any] = {"v2": v2, "SIZE": 32, "Pictures": lambda _file, _change, erase=None: erase}
    names["crop"] = eval(lines["crop"], names)
    names["changes"] = eval(lines["changes"], names)
    change, erase = image_files._changes(strength, True, 0)
    kinds = [type(one) for one in names["changes"][1:]]
    assert kinds == [type(one) for one in change.transforms]
    assert repr(names["changes"][1]) == repr(change.transforms[0]), "flips"
    if strength is Augmentation.LIGHT:
        assert repr(names["changes"][2]) == repr(change.transforms[1])
    assert repr(eval(lines["train"], names)) in (repr(erase), "None")


def test_what_was_chosen_for_a_run_is_stated_in_its_script_and_nothing_else_of_it(tmp_path):
    requests: list[ScriptRequest] = []

    def engine(_name: str, request: bytes) -> bytes:
        requests.append(msgspec.json.decode(request, type=ScriptRequest))
        return msgspec.json.encode(Script("text"))

    run = RunFolder(tmp_path)
    run.options_file.write_text('schema = 1\ntask = "text-classification"\n', encoding="utf-8")
    ran = what_ran(
        device="cuda:0\"; print('here')  #",
        autocast_dtype="bfloat16",
        attention="eager",
        reasons={"device.precision": "bf16: in hardware", "device.threads": "3; print('here'): why"},
    )
    write_events(run.events_file, ran)
    assert save_script_of_run(run, tmp_path / "script", engine) == "text"
    [request] = requests
    device, model = request.asked["device"], request.asked["model"]
    assert (request.device, device["precision"], device["threads"]) == ("cpu", "bf16", None)
    assert (model["attention"], request.notes) == ("eager", ("device.precision = bf16: in hardware",))


@pytest.mark.parametrize(
    ("reason", "noted"),
    [("mlx: it is made by Apple", True), ("torch: preferences", False)],
)
def test_a_script_is_written_for_the_engine_that_trained(reason, noted, tmp_path):
    requests: list[ScriptRequest] = []

    def engine(_name: str, request: bytes) -> bytes:
        requests.append(msgspec.json.decode(request, type=ScriptRequest))
        return msgspec.json.encode(Script("text"))

    run = RunFolder(tmp_path)
    run.options_file.write_text('schema = 1\ntask = "chat"\n', encoding="utf-8")
    write_events(run.events_file, what_ran(device="mps", reasons={"device.backend": reason}))
    save_script_of_run(run, tmp_path / "script", engine)
    [request] = requests
    assert request.asked["device"]["backend"] == reason.partition(":")[0]
    assert request.notes == ((f"device.backend = {reason}",) if noted else ())


def test_without_data_there_is_no_script_and_no_folder(made, tmp_path):
    with pytest.raises(OptionsError) as refused:
        save_script(options(Task.TEXT_CLASSIFICATION, made["bert"], ""), tmp_path / "script", ask_here)
    assert [problem.path for problem in refused.value.problems] == ["data.train"]
    assert not (tmp_path / "script").exists()


def test_an_exported_chat_has_a_script_as_any_data(made, tmp_path, script):
    chat = {"chat_messages": [{"sender": who, "text": "Hi"} for who in ("human", "assistant")]}
    exported = str(write_json(tmp_path / "conversations.json", [chat] * 12))
    assert "11 to train on, 1 to validate" in script(options(Task.CHAT, made["talker"], exported))


def test_a_strangers_text_is_never_code(made, tmp_path, script):
    nasty = 'a\n"\'); print("here")  # {{ seed }} {% raw %}'
    path = tmp_path / "odd.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([(nasty, "label"), *((f"good {row}", str(row % 2)) for row in range(12))])
    versions = {"torch": "2\nprint()", "transformers": "0.21 evil", "accelerate": "1.16.0"}
    train = options(Task.TEXT_CLASSIFICATION, made["bert"], str(path))
    text = script(train, title=nasty, notes=(nasty,), versions=versions)
    assert "print" not in {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    assert re.search(
        r"pip install torch transformers datasets==.* accelerate==1\.16\.0\n", text.replace("\n#  ", "")
    )
    assert all(line.startswith("#") for line in comment(nasty))
