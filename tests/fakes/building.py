"""A trainer as a run builds it, for tests that look at it before, while and after it trains."""

from pathlib import Path
from typing import Any

from core.engine.devices.choose import ResolvedRun
from core.engine.environment import prepare_torchvision
from core.engine.reporter import Reporter
from core.options import RunOptions
from core.options.choices import Precision, Task
from core.options.data import DataOptions
from core.options.device_support import DeviceReport
from core.options.sections import DeviceOptions, MemoryOptions, OutputOptions, TrainingOptions

prepare_torchvision()


def options(task: Task, model: Any, data: DataOptions, **sections: Any) -> RunOptions:
    """A short run in fp32 on one thread, which keeps no checkpoints."""
    return RunOptions(
        **{
            "task": task,
            "model": model,
            "data": data,
            "device": DeviceOptions(name="cpu", precision=Precision.FP32, threads=1),
            "memory": MemoryOptions(batch_size=4),
            "training": TrainingOptions(epochs=1.0, learning_rate=1e-2),
            "output": OutputOptions(keep_checkpoints=0),
            **sections,
        }
    )


def resolved(options: RunOptions, device: str = "cpu", title: str = "") -> ResolvedRun:
    """A run whose options leave nothing open, on a device of this name."""
    return ResolvedRun(options, DeviceReport(name=device, title=title, available=True))


def built(asked: RunOptions, folder: Path, kind: Any = None) -> Any:
    """The trainer of a run, or of that `kind`; its checkpoints would go into `folder`."""
    from core.engine.training.train import build_trainer, chosen_device, prepare
    from core.engine.training.trainer import WatchedTrainer

    reporter = Reporter(None)
    with chosen_device(asked) as run:
        prepared = prepare(run.options, reporter)
        return build_trainer(folder, run, prepared, reporter, kind or WatchedTrainer)


def inputs_of(trainer: Any) -> list[dict[str, Any]]:
    """What the model is given from now on, batch by batch."""
    seen: list[dict[str, Any]] = []
    trainer.model.register_forward_pre_hook(lambda _model, _args, given: seen.append(given), with_kwargs=True)
    return seen
