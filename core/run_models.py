"""The model of a past run as a place to start from: `run:NAME`, by its folder, the name it was given, or its path.

A new run keeps the path, so that its run file means the same later, wherever runs go by then.
"""

import os
from pathlib import Path

import msgspec

from core import settings
from core.choices import Task
from core.errors import Fix, Problem
from core.files import load_toml, read_text
from core.model_folders import Lack, what_lacks
from core.options import RunOptions
from core.run_names import CLOSE, close_to, folder_called, folders_given, run_folders
from core.sources import Scheme


def is_run(source: str) -> bool:
    """Whether a model's source names a past run."""
    return Scheme.RUN.name_of(source) is not None


def run_folder(source: str) -> Path | None:
    """The folder of the run that `run:NAME` names, there or not; None where `source` is something else."""
    name = Scheme.RUN.name_of(source)
    if name is None:
        return None
    if Path(name).is_absolute():
        return Path(name)
    return folder_called(name) or settings.runs_folder() / name


def model_folder(source: str) -> Path | None:
    """Where the run that `run:NAME` names has its model, there or not; None where `source` is something else."""
    folder = run_folder(source)
    return None if folder is None else folder / "model"


def with_run_path(options: RunOptions) -> RunOptions:
    """The options with a past run named by its path."""
    folder = run_folder(options.model.source)
    if folder is None:
        return options
    source = Scheme.RUN.of(str(folder.absolute()))
    return msgspec.structs.replace(options, model=msgspec.structs.replace(options.model, source=source))


def task_of(folder: Path) -> Task | None:
    """What a run has learned; None where its run file doesn't tell."""
    try:
        return Task(load_toml(read_text(folder / "run.toml"))["task"])
    except (OSError, ValueError, KeyError, RecursionError):
        return None


def holds_adapter(folder: Path) -> bool:
    """Whether a run's model folder holds LoRA matrices and not a whole model."""
    return (folder / "adapter_config.json").is_file()


def problem_with(source: str, task: Task, *, is_new: bool = False) -> Problem | None:
    """Why the model of a past run can't be trained on for `task`; None where it can.

    Args:
        source: `run:NAME`.
        task: What is to be learned.
        is_new: Whether a new run is to start from it: not from a model that is older than its run's newest checkpoint.
            A run that has started from that model may go on.
    """
    folder = run_folder(source)
    assert folder is not None, "asked only of runs"
    if not Scheme.RUN.name_of(source) or not folder.is_dir():
        return _no_run(source, folder)
    said = _unfit(folder, task) or (_left_behind(folder) if is_new else "")
    return Problem("model.source", said) if said else None


def _unfit(folder: Path, task: Task) -> str:
    """What keeps the model of the run in `folder` from being trained on; empty: nothing."""
    model, learned = folder / "model", task_of(folder)
    if not model.is_dir():
        return f"the run {folder.name} has no model: it didn't end, or its model was deleted"
    if learned is None:
        return f"nobody knows what {folder.name} learned: its run file can't be read"
    if learned.reads_images != task.reads_images or (task.writes_text and not learned.writes_text):
        return f"the run {folder.name} learned “{learned.label}”; its model can't be used for “{task.label}”"
    if task.reads_images and not any(
        (model / name).is_file() for name in ("config.json", "model.safetensors")
    ):
        return (
            f"the run {folder.name} trained LoRA matrices beside a model of torchvision's, which can't be trained on "
            "further; choose a run that trained all weights, or the last layer"
        )
    lacks_matrices = holds_adapter(model) and not (model / "adapter_model.safetensors").is_file()
    lack = what_lacks(model, needs_weights=True) if task.reads_text else None
    if lacks_matrices or lack not in (None, Lack.ALL_BUT_ADAPTER):
        return f"the model of the run {folder.name} isn't whole: files are missing in {model}"
    return ""


def _left_behind(folder: Path) -> str:
    """Why what stands in `model/` isn't the run's trained model any more; empty: it is."""
    from core.run_folder import RunFolder  # which reads run files, and so needs this module
    from core.trained_model import is_left_behind, trained_model

    run = RunFolder(folder)
    newest = trained_model(run) if is_left_behind(run) else None
    if newest is None:
        return ""
    return (
        f"the run {folder.name} has trained on since its model was written: its newest weights are those of its "
        f"checkpoint of step {newest.step:,}; let it go on until it ends, or export that checkpoint and start from "
        "the folder"
    )


def _no_run(source: str, folder: Path) -> Problem:
    name = Scheme.RUN.name_of(source) or ""
    known = [path for path in _beside(name, folder) if (path / "model").is_dir()]
    namesakes = folders_given(name)
    if not name:
        such = f", such as run:{known[0].name}" if known else ""
        return Problem("model.source", f"name a run{such}", _fixes(known[:CLOSE]))
    if namesakes:
        message = (
            f"{len(namesakes)} runs are called “{name}”; name one by its folder, such as {namesakes[0].name}"
        )
        return Problem("model.source", message, _fixes(namesakes[:CLOSE]))
    close = close_to(Path(name).name, known)
    where = os.path.normpath(folder.parent)
    rest = f"did you mean {close[0].name}?" if close else f"runs are in {where}"
    return Problem("model.source", f"there is no run called “{name}”; {rest}", _fixes(close))


def _beside(name: str, folder: Path) -> list[Path]:
    """The folders that lie where a run was looked for."""
    if not Path(name).is_absolute():
        return run_folders()
    try:
        return sorted((path for path in folder.parent.iterdir() if path.is_dir()), reverse=True)
    except OSError:
        return []


def _fixes(folders: list[Path]) -> tuple[Fix, ...]:
    """A fix for each run that may be meant: by its name where it lies among the others, else by its path."""
    home = settings.runs_folder()
    sources = {path.name: path.name if path.parent == home else str(path) for path in folders}
    return tuple(
        Fix(f"Use {name}", {"model.source": Scheme.RUN.of(source)}) for name, source in sources.items()
    )
