"""What happens to the invented runs of `gui.invented_runs` in tests: a folder, a warning, a crash."""

import os
from pathlib import Path

from core import run_file
from core.choices import Task
from core.errors import Fix
from core.events import Level, MemoryForecast, MessageRaised
from core.memory.forecast import Basis, Parts
from core.options import DataOptions, MemoryOptions, ModelOptions, OutputOptions, RunOptions, TrainingOptions
from core.run_folder import ExitRecord, RunFolder
from tests.fakes.runs import write_events

GB = 1 << 30

SMALLER_BATCH = Fix("Use batch size 8", {"memory.batch_size": 8})

FORECAST = MemoryForecast(
    device="cpu",
    basis=Basis.TRACE,
    parts=Parts(weights=GB // 2, activations=2 * GB),
    fixes=(Fix("Batches of 8 (saves 700 MB)", {"memory.batch_size": 8}),),
)

MEMORY_LOW = MessageRaised(
    id="memory-low",
    level=Level.WARNING,
    title="Memory is nearly used up",
    detail="14.9 of 16 GB are in use. The computer starts to page, and steps become many times slower.",
    fixes=(SMALLER_BATCH,),
)

OPTIONS = RunOptions(
    task=Task.IMAGE_CLASSIFICATION,
    model=ModelOptions(source="torchvision:resnet18", pretrained=False),
    data=DataOptions(train="builtin:digits", eval_fraction=0.2, image_size=32),
    memory=MemoryOptions(batch_size=32),
    training=TrainingOptions(epochs=8.0, learning_rate=1e-3),
    output=OutputOptions(name="Handwritten digits"),
)


def make_folder(path: Path, options: RunOptions = OPTIONS) -> RunFolder:
    """A folder in which nothing has happened yet."""
    path.mkdir(parents=True)
    run = RunFolder(path)
    run_file.write(options, run.options_file)
    return run


def warn(run: RunFolder) -> None:
    """The engine finds memory nearly used up."""
    write_events(run.events_file, MEMORY_LOW)


def crash(run: RunFolder, clock: float) -> None:
    """The engine is killed."""
    tail = "Loading builtin:digits\nTraining on cpu\n"
    run.log_file.write_text(tail)
    run.record_exit(
        ExitRecord(
            time=clock + 0.2,
            code=-9,
            signal="SIGKILL",
            reason="It was killed from outside. Often the operating system does this when memory runs out: "
            "try a smaller batch size.",
            log_tail=tail,
        )
    )


def keep_alive(run: RunFolder, attempt: int = 1) -> None:
    """Let the run count as live: this very process is its keeper."""
    run.record_keeper(os.getpid(), attempt)
