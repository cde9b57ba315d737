"""The job `try`: loads the model that the first line names, then answers line by line. See `core.services.chat`."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from core.base.errors import OutOfMemory, UserError
from core.base.jobs import FailureReport
from core.base.language import _
from core.engine.environment import prepare
from core.options import RunOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.runs.folder import RunFolder
from core.services.chat import (
    Answered,
    Ask,
    Close,
    Load,
    Loaded,
    NotAnswered,
    NotLoaded,
    Piece,
    Said,
    Stop,
    Told,
)

if TYPE_CHECKING:
    from core.engine.generate.loading import TriedModel

CHUNK = 1 << 16
WRONG = 2
MISHAPS = (
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    NotImplementedError,
    OSError,
    MemoryError,
)
"""What models and their libraries raise at a question: told as the answer; anything else ends the process."""

Say = Callable[[Told], None]


class Hearing:
    """Reads lines from a file number, in a thread of its own once it has begun.

    Args:
        descriptor: What is read from, unbuffered: a buffered reader can't be left waiting at the end.
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
        """Wait for a question; None: there will be no more."""
        return None if self._closed.is_set() else self._questions.get()

    def is_stopped(self, question: int) -> bool:
        """Whether the answer to a question is no longer wanted."""
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
        """The next line; None at the end, or where it can't be understood."""
        while b"\n" not in self._rest:
            try:
                read = os.read(self._descriptor, CHUNK)
            except OSError:
                return None
            if not read:
                return None
            self._rest += read
        line, _rest, self._rest = self._rest.partition(b"\n")
        try:
            return msgspec.json.decode(line, type=Said)
        except msgspec.MsgspecError:
            return None


def run_try(descriptor: int) -> int:
    """Load a model and answer until there are no more questions; lines are written to `descriptor`.

    Returns:
        0 when it was asked to end, 1 when the model can't be loaded, 2 when the first line is no `Load`.
    """

    def say(told: Told) -> None:
        os.write(descriptor, msgspec.json.encode(told) + b"\n")

    hearing = Hearing()
    load = hearing.first()
    if load is None:
        print(_("the first line is to say what to load"), file=sys.stderr)
        return WRONG
    hearing.begin()
    try:
        model = _loaded(load, say)
        while (asked := hearing.next_question()) is not None:
            say(_answer_or_failure(model, asked, hearing, say))
    except UserError as error:
        say(NotLoaded(error=_report(error)))
        return 1
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    return 0


def _loaded(load: Load, say: Say) -> "TriedModel":
    begun = time.perf_counter()
    run = RunFolder(Path(load.run))
    options = plain_options(run.options(), load)
    prepare(options)  # before torch is imported
    from core.engine.generate.loading import load_model
    from core.engine.generate.predict import positions
    from core.engine.training.failures import is_out_of_memory

    try:
        model = load_model(run, options, load.which)
    except (RuntimeError, MemoryError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(_("There is too little memory to load this model"), str(error)) from error
    sees = positions(model.model) if model.task.writes_text else model.length
    say(
        Loaded(
            name=model.name,
            task=model.task,
            device=model.resolved.label,
            dtype=model.dtype,
            labels=model.labels,
            sees=0 if sees == sys.maxsize else sees,
            seconds=time.perf_counter() - begun,
        )
    )
    return model


def plain_options(asked: RunOptions, load: Load) -> RunOptions:
    """The options that matter for using a run's model: nothing of how it was trained but seed and precision."""
    device = msgspec.structs.replace(asked.device, compile=False, processes=1)
    if load.on_cpu:
        device = DeviceOptions(name="cpu", threads=asked.device.threads)
    return msgspec.structs.replace(
        asked,
        device=device,
        memory=MemoryOptions(),
        training=TrainingOptions(seed=asked.training.seed),
    )


def _answer_or_failure(model: "TriedModel", asked: Ask, hearing: Hearing, say: Say) -> Told:
    from core.engine.training.failures import is_out_of_memory

    try:
        return answer(model, asked, hearing, say)
    except UserError as error:
        return NotAnswered(id=asked.id, error=_report(error))
    except MISHAPS as error:
        traceback.print_exc(file=sys.stderr)
        mishap = UserError(_("The model can't answer this"), f"{type(error).__name__}: {error}")
        if is_out_of_memory(error):
            less = _("A shorter text, fewer tokens or one model at a time takes less.")
            mishap = OutOfMemory(_("There is too little memory for this answer"), f"{error}\n{less}")
        return NotAnswered(id=asked.id, error=_report(mishap))


def answer(model: "TriedModel", asked: Ask, hearing: Hearing, say: Say) -> Answered:
    """The whole answer to a question.

    Raises:
        UserError: It can't be answered.
    """
    import torch

    from core.engine.generate.predict import judged
    from core.engine.generate.write import write

    begun = time.perf_counter()
    with torch.no_grad(), model.computing():
        if model.task.writes_text:
            found = write(
                model,
                asked,
                tell=lambda text: say(Piece(id=asked.id, text=text)),
                is_stopped=lambda: hearing.is_stopped(asked.id),
            )
        else:
            found = judged(model, asked)
    return msgspec.structs.replace(
        found, device=model.resolved.label, dtype=model.dtype, seconds=time.perf_counter() - begun
    )


def _report(error: UserError) -> FailureReport:
    return FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)
