"""The job `try`: loads the model of the first request, then answers requests line by line. See `core.services.chat`."""

import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec

from core.base.errors import OutOfMemory, UserError
from core.base.jobs import FailureReport
from core.base.language import _
from core.engine.environment import prepare
from core.jobs import chat as chat_jobs
from core.options import RunOptions
from core.options.sections import DeviceOptions, MemoryOptions, TrainingOptions
from core.runs.folder import RunFolder

if TYPE_CHECKING:
    from core.engine.generate.loading import TriedModel

USAGE_ERROR = 2
MODEL_ERRORS = (
    *(RuntimeError, ValueError, TypeError, LookupError, AttributeError),
    *(NotImplementedError, OSError, MemoryError),
)
"""What models and their libraries raise for a request: sent as the answer; any other error ends the process."""

Send = Callable[[chat_jobs.Told], None]
LoadTried = Callable[[RunFolder, RunOptions, chat_jobs.Which], "TriedModel"]
"""Loads a run's model with its `inference_options`."""


def read_requests(descriptor: int = 0) -> Iterator[chat_jobs.Said]:
    """Reads requests until the end of the input, or a line that can't be decoded.

    Unbuffered: a thread that waits in a buffered reader would crash the interpreter at exit.
    """
    with open(descriptor, "rb", buffering=0, closefd=False) as lines:
        try:
            for line in lines:
                yield msgspec.json.decode(line, type=chat_jobs.Said)
        except (OSError, msgspec.MsgspecError):
            return


class Requests:
    """The requests after the first one, received in a thread."""

    def __init__(self, requests: Iterator[chat_jobs.Said]) -> None:
        self._requests = requests
        self._questions: SimpleQueue[chat_jobs.Ask | None] = SimpleQueue()
        self._stopped: set[int] = set()
        self._closed = threading.Event()
        threading.Thread(target=self._receive, name="requests", daemon=True).start()

    def next_question(self) -> chat_jobs.Ask | None:
        """Waits for a question; returns None after the last one."""
        return None if self._closed.is_set() else self._questions.get()

    def should_stop(self, question: int) -> bool:
        """Returns whether the answer to a question is no longer wanted."""
        return question in self._stopped or self._closed.is_set()

    def _receive(self) -> None:
        for request in self._requests:
            match request:
                case chat_jobs.Ask():
                    self._questions.put(request)
                case chat_jobs.Stop():
                    self._stopped.add(request.id)
                case chat_jobs.Close():
                    break
        self._closed.set()
        self._questions.put(None)


def run_try(descriptor: int, load_model: LoadTried) -> int:
    """Loads a model by `load_model` and answers all requests; answers are written to `descriptor` as JSON lines.

    Returns:
        0 after the last request, 1 if the model can't be loaded, 2 if the first line is no `Load`.
    """

    def send(told: chat_jobs.Told) -> None:
        os.write(descriptor, msgspec.json.encode(told) + b"\n")

    received = read_requests()
    load = next(received, None)
    if not isinstance(load, chat_jobs.Load):
        print(_("the first request must load a model"), file=sys.stderr)
        return USAGE_ERROR
    requests = Requests(received)
    try:
        model = _load(load, load_model, send)
        while (asked := requests.next_question()) is not None:
            send(_answer_or_failure(model, asked, requests, send))
    except UserError as error:
        send(chat_jobs.NotLoaded(error=_report(error)))
        return 1
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    return 0


def _load(load: chat_jobs.Load, load_model: LoadTried, send: Send) -> "TriedModel":
    started = time.perf_counter()
    run = RunFolder(Path(load.run))
    options = inference_options(run.options(), load)
    prepare(options)  # before torch is imported
    from core.engine.devices.computing import is_out_of_memory
    from core.engine.generate.predict import max_positions

    send(chat_jobs.Loading())
    try:
        model = load_model(run, options, load.which)
    except (RuntimeError, MemoryError, OSError) as error:
        if not is_out_of_memory(error):
            raise
        raise OutOfMemory(_("There is too little memory to load this model"), str(error)) from error
    limit = max_positions(model.model) if model.task.writes_text else model.length
    send(
        chat_jobs.Loaded(
            name=model.name,
            task=model.task,
            device=model.device,
            dtype=model.dtype,
            labels=model.labels,
            sees=0 if limit == sys.maxsize else limit,
            seconds=time.perf_counter() - started,
        )
    )
    return model


def inference_options(options: RunOptions, load: chat_jobs.Load) -> RunOptions:
    """Keeps only what matters for inference: of the training options, seed and precision."""
    device = msgspec.structs.replace(options.device, compile=False, processes=1)
    if load.on_cpu:
        device = DeviceOptions(name="cpu", threads=options.device.threads)
    training = TrainingOptions(seed=options.training.seed)
    return msgspec.structs.replace(options, device=device, memory=MemoryOptions(), training=training)


def _answer_or_failure(
    model: "TriedModel", asked: chat_jobs.Ask, requests: Requests, send: Send
) -> chat_jobs.Told:
    from core.engine.devices.computing import is_out_of_memory

    try:
        return answer(model, asked, send, lambda: requests.should_stop(asked.id))
    except UserError as error:
        return chat_jobs.NotAnswered(id=asked.id, error=_report(error))
    except MODEL_ERRORS as error:
        traceback.print_exc(file=sys.stderr)
        failure = UserError(_("The model can't answer this"), f"{type(error).__name__}: {error}")
        if is_out_of_memory(error):
            remedy = _("A shorter text, fewer tokens or only one loaded model needs less.")
            failure = OutOfMemory(_("There is too little memory for this answer"), f"{error}\n{remedy}")
        return chat_jobs.NotAnswered(id=asked.id, error=_report(failure))


def answer(
    model: "TriedModel", asked: chat_jobs.Ask, send: Send, should_stop: Callable[[], bool]
) -> chat_jobs.Answered:
    """Answers a question; pieces of text are sent as they are written.

    Raises:
        UserError: It can't be answered.
    """
    import torch

    from core.engine.generate.files import answer_files
    from core.engine.generate.predict import classify, write

    started = time.perf_counter()
    if asked.before:
        assert model.before is not None, "only a trained adapter is asked so"
        model = model.before
    with torch.no_grad(), model.computing():
        if isinstance(asked.given, chat_jobs.Files):
            answered = answer_files(model, asked, send, should_stop)
        elif model.task.writes_text:
            answered = write(
                model, asked, lambda text: send(chat_jobs.TextPiece(id=asked.id, text=text)), should_stop
            )
        else:
            answered = classify(model, asked)
    return msgspec.structs.replace(
        answered, device=model.device, dtype=model.dtype, seconds=time.perf_counter() - started
    )


def _report(error: UserError) -> FailureReport:
    return FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)
