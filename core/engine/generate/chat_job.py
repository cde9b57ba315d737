"""The job `try`: loads the model that the first line asks for, then answers line by line. See `core.services.chat`."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import msgspec

from core.base.errors import OutOfMemory, UserError
from core.base.jobs import FailureReport
from core.engine.environment import prepare
from core.options import RunOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.runs.folder import RunFolder
from core.services.chat import (
    Ask,
    Close,
    Load,
    NotLoaded,
    Said,
    Stop,
    Told,
)

# --- Hears what a trying process is asked, while it answers


CHUNK = 1 << 16


class Hearing:
    """Reads lines from a file number, in a thread of its own once it has begun.

    Args:
        descriptor: What is read from; read as it is, since a buffered reader can't be left waiting at the end.
    """

    def __init__(self, descriptor: int = 0) -> None:
        self._descriptor = descriptor
        self._rest = b""
        self._questions: SimpleQueue[Ask | None] = SimpleQueue()
        self._stopped: set[int] = set()
        self._closed = threading.Event()

    def first(self) -> Load | None:
        """The first line; None where it says something else."""
        said = self._next()
        return said if isinstance(said, Load) else None

    def begin(self) -> None:
        """Listen from now on."""
        threading.Thread(target=self._listen, name="hearing", daemon=True).start()

    def next_question(self) -> Ask | None:
        """Wait for a question; None: nobody asks any more."""
        return None if self._closed.is_set() else self._questions.get()

    def is_stopped(self, question: int) -> bool:
        """Whether the answer to a question is wanted no longer."""
        return question in self._stopped or self._closed.is_set()

    def _listen(self) -> None:
        while (said := self._next()) is not None:
            match said:
                case Ask():
                    self._questions.put(said)
                case Stop():
                    self._stopped.add(said.id)
                case Close():
                    break
        self._closed.set()
        self._questions.put(None)

    def _next(self) -> Said | None:
        """The next line; None where there is none any more, or none that can be understood."""
        while b"\n" not in self._rest:
            try:
                read = os.read(self._descriptor, CHUNK)
            except OSError:
                return None
            if not read:
                return None
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=Said)
        except msgspec.MsgspecError:
            return None


# --- The job `try`: loads the model that the first line asks for


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
    prepare(options)
    from core.engine.failures import is_out_of_memory
    from core.engine.generate.answers import loaded_line, talk
    from core.engine.generate.loading import load_model

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
