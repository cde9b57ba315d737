"""What the engine does, one thing after the other: trains, saves, loads again, answers, forecasts, exports."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from core.choices import Task
from core.conversation_words import Speaker
from core.device_check_report import DeviceCheckReport, DeviceCheckRequest
from core.export_job import Export, Wanted
from core.exporting import ExportKind
from core.figures import counted, size
from core.hub_questions import Account, AccountAction, AccountRequest
from core.memory.forecast import Forecast, Measurement, MeasureRequest, forecast_request
from core.options import RunOptions
from core.presets import FOLDER as PRESETS
from core.processes import is_frozen
from core.reports import MachineReport
from core.run_folder import RunFolder
from core.selftest import samples
from core.selftest.asking import ask
from core.selftest.checking import Failed
from core.selftest.data_checks import data_folder
from core.selftest.training import example, options_for, runs_folder, train, train_on
from core.selftest.trying import answer_to
from core.trying import Chat, Image, Turn

DIGITS = PRESETS.parent / "examples" / "digits.hone"
STEPS = 5
MORE_STEPS = 3
FEW_STEPS = 3
DIGITS_OPTIONS = {"training.max_steps": STEPS, "data.max_eval_samples": 64}
LOADED_BY_WORKERS = {"data.workers": 2, "output.tensorboard": "true"}
REFUSAL_SECONDS = 60.0
REFUSED = 2


def python(_folder: Path) -> str:
    """In a bundle `sys.executable` is Hone, which libraries take for Python: no window may open for it."""
    if not is_frozen():
        return f"Python {sys.version.split()[0]}, from the source"
    done = subprocess.run(
        [sys.executable, "-c", "print(1)"], capture_output=True, timeout=REFUSAL_SECONDS, check=False
    )
    if done.returncode != REFUSED or done.stdout:
        raise Failed(f"asked to be Python, the program ended with {done.returncode} and said {done.stdout!r}")
    return "the program refuses to be a Python interpreter"


def devices(_folder: Path) -> str:
    """What this computer can train on."""
    report = ask("devices", None, MachineReport)
    return f"{report.automatic} would be taken, with PyTorch {report.versions.get('torch', '?')}"


def compute(_folder: Path) -> str:
    """Whether one thread of the CPU and several compute the same."""
    report = ask("check-device", DeviceCheckRequest(device="cpu", short=True), DeviceCheckReport)
    if not report.agrees:
        raise Failed(report.conclusion)
    return f"{counted(len(report.comparisons), 'comparison')} agree"


def keychain(_folder: Path) -> str:
    """Whether the libraries for the system's keychain are there; a keychain itself needn't be."""
    found = ask("hub-account", AccountRequest(action=AccountAction.LOOK), Account)
    return found.keychain or "looked for, and there is none here"


def digits(folder: Path) -> str:
    """The first example, a few steps of it."""
    return train(folder, "digits", example(DIGITS, DIGITS_OPTIONS), STEPS)[1]


def reload_digits(folder: Path) -> str:
    """Going on from what the digits have saved, and asking the model that came of it about an image."""
    run = _past(folder, "digits")
    said = train_on(run, STEPS + MORE_STEPS)
    image = data_folder(folder) / "image.png"
    image.write_bytes(samples.png(bytes(range(samples.SIDE * samples.SIDE))))
    answer = answer_to(Image(path=str(image)), run)
    if not answer.chances:
        raise Failed("the saved model tells no label")
    return f"{said} in all, and the saved model answers"


def workers(folder: Path) -> str:
    """Images loaded by processes of their own, and TensorBoard's files written."""
    path = samples.write_class_folders(data_folder(folder))
    values = {**DIGITS_OPTIONS, **LOADED_BY_WORKERS, "data.train": path, "memory.batch_size": 4}
    run, said = train(
        folder, "workers", example(DIGITS, {**values, "training.max_steps": FEW_STEPS}), FEW_STEPS
    )
    if not any(run.tensorboard.iterdir()):
        raise Failed(f"nothing was written in {run.tensorboard}")
    return f"{said}, with 2 processes that load"


def writer(folder: Path) -> str:
    """A small model that writes, from nothing."""
    path = samples.write_txt(data_folder(folder))
    values = {"data.train": str(path), "model.source": "scratch:llama-tiny", "data.max_length": 64}
    return train(folder, "writer", _short(Task.CAUSAL_LM, values), FEW_STEPS)[1]


def tags(folder: Path) -> str:
    """A small model that reads, from nothing, and finds names."""
    path = samples.write_conll(data_folder(folder))
    values = {"data.train": str(path), "model.source": "scratch:bert-tiny"}
    return train(folder, "tags", _short(Task.TOKEN_CLASSIFICATION, values), FEW_STEPS)[1]


def lora(folder: Path) -> str:
    """LoRA beside the writer, on conversations; its matrices saved, loaded again and asked."""
    path = samples.write_conversations(data_folder(folder))
    run, said = train(folder, "lora", _beside(folder, Task.CHAT, path), FEW_STEPS)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        if not (run.model / name).is_file():
            raise Failed(f"{name} was not saved")
    answer = answer_to(Chat(turns=(Turn(Speaker.USER, "What comes after 1?"),)), run)
    return f"{said}, saved, and answered in {counted(answer.tokens, 'token')} when loaded again"


def preferences(folder: Path) -> str:
    """LoRA beside the writer, on answers that are better and worse."""
    path = samples.write_pairs(data_folder(folder))
    return train(folder, "preferences", _beside(folder, Task.PREFERENCE, path), FEW_STEPS)[1]


def forecast(_folder: Path) -> str:
    """How much memory the digits would take, by tracing."""
    found = ask("forecast", forecast_request(example(DIGITS, {}), 10), Forecast)
    return f"{size(found.parts.total)} for the digits"


def measure(_folder: Path) -> str:
    """The same, measured on real steps."""
    asked = msgspec.to_builtins(example(DIGITS, {}))
    found = ask("measure", MeasureRequest(asked=asked), Measurement)
    return f"{found.step_seconds:.2f} s a step of the digits"


def export(folder: Path) -> str:
    """The LoRA run's model, merged, as other programs take it."""
    run = _past(folder, "lora")
    report = Export(Wanted(run=str(run.path), kind=ExportKind.MERGED, folder=str(folder / "exported"))).run()
    return f"{counted(len(report.files), 'file')}, {size(report.size)}"


def _short(task: Task, values: Mapping[str, object]) -> RunOptions:
    few = {"training.max_steps": FEW_STEPS, "memory.batch_size": 4, "data.eval_fraction": 0.2}
    return options_for(task, {**few, **values})


def _beside(folder: Path, task: Task, data: Path) -> RunOptions:
    """LoRA matrices beside the model of the writer."""
    base = f"run:{_past(folder, 'writer').path}"
    return _short(
        task, {"data.train": str(data), "model.source": base, "model.method": "lora", "data.max_length": 64}
    )


def _past(folder: Path, name: str) -> RunFolder:
    return RunFolder(runs_folder(folder) / name)
