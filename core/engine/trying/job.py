"""The job `try`: loads the model that the first line asks for, then answers line by line. See `core.trying`."""

import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from core.engine.trying.hearing import Hearing
from core.errors import OutOfMemory, UserError
from core.jobs import FailureReport
from core.options import DeviceOptions, MemoryOptions, RunOptions, TrainingOptions
from core.run_folder import RunFolder
from core.trying import Load, NotLoaded, Told

Say = Callable[[Told], None]
WRONG = 2


def run_try(descriptor: int) -> int:
    """Load a model and answer until nobody asks any more.

    Args:
        descriptor: Where lines are written to.

    Returns:
        0 when it was asked to end, 1 when the model can't be loaded, 2 when the first line is no `Load`.
    """

    def say(told: Told) -> None:
        os.write(descriptor, msgspec.json.encode(told) + b"\n")

    hearing = Hearing()
    load = hearing.first()
    if load is None:
        print("the first line is to say what to load", file=sys.stderr)
        return WRONG
    hearing.begin()
    try:
        return _serve(load, hearing, say)
    except UserError as error:
        say(NotLoaded(error=FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)))
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
    return 1


def _serve(load: Load, hearing: Hearing, say: Say) -> int:
    begun = time.perf_counter()
    run = RunFolder(Path(load.run))
    options = plain_options(run.options(), load)
    _prepare(options)
    from core.engine.failures import is_out_of_memory
    from core.engine.trying.loading import load_model
    from core.engine.trying.talking import loaded_line, talk

    try:
        model = load_model(run, options, load.which)
    except (RuntimeError, MemoryError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory("There is too little memory to load this model", str(error)) from error
    say(loaded_line(model, time.perf_counter() - begun))
    talk(model, hearing, say)
    return 0


def plain_options(asked: RunOptions, load: Load) -> RunOptions:
    """What of a run's options matters for using its model: nothing of how it was trained but seed and precision."""
    device = msgspec.structs.replace(asked.device, compile=False, processes=1)
    if load.on_cpu:
        device = DeviceOptions(name="cpu", threads=asked.device.threads)
    return msgspec.structs.replace(
        asked,
        device=device,
        memory=MemoryOptions(),
        training=TrainingOptions(seed=asked.training.seed),
    )


def _prepare(options: RunOptions) -> None:
    """Get this process ready, without a network: what the run has used is here, or it isn't to be fetched now."""
    from core.engine.environment import prepare_environment, stay_offline
    from core.engine.libraries import leave_aside

    prepare_environment(options)  # before torch is imported
    stay_offline()
    leave_aside(options)
    from core.engine.torchvision_ops import prepare_torchvision

    prepare_torchvision()  # before transformers is imported
