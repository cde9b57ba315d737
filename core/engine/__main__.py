"""The engine process: `python -P -m core.engine JOB ...`.

Jobs: `train RUN_DIR` reports into the run's folder; `try` answers line by line (`core.jobs.chat`); all others read
a request as JSON from standard input and write JSON to standard output. What libraries print goes to standard error.

torch and huggingface_hub read environment variables when they are imported, so each job imports them after `prepare`.
"""

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, TypeVar

import msgspec
import psutil

from core.base.ceiling import say
from core.base.errors import OptionsError, UserError
from core.base.files import ENGINE_LOCK, locked
from core.base.jobs import FailureReport, JobFailure, JobProgress
from core.base.language import _
from core.base.processes import ASKER, end_group
from core.engine.backend import choose, choose_again, model_problems, why_not_mlx_here
from core.engine.environment import (
    hide_libraries,
    prepare,
    prepare_environment,
    prepare_torchvision,
    stay_offline,
)
from core.engine.hub import token
from core.engine.launch import Launch, is_rank, launch_of, lead, rank
from core.engine.reporter import Reporter
from core.engine.run.checkpoints import StartPoint, find_checkpoint
from core.jobs import hub as hub_jobs
from core.jobs.chat import Which
from core.jobs.devices import DeviceCheckRequest
from core.jobs.export import ExportRequest, PushRequest
from core.jobs.inspect import InspectRequest
from core.jobs.script import ScriptRequest
from core.jobs.uv import UvProgram
from core.memory.model import OptionsRequest
from core.monitor.nvidia import number_by_slot
from core.options import RunOptions, Tree, hub
from core.options.catalogue import with_changes
from core.options.choices import Backend
from core.options.hub import is_complete
from core.options.sections import DeviceOptions
from core.options.validate import read_options
from core.runs.export_source import find_source
from core.runs.folder import RunFolder
from core.runs.models import Checkpoint

Request = TypeVar("Request", bound=msgspec.Struct)

POLL_SECONDS = 1.0
LOCK_SECONDS = 2.0
"""How long to wait for another engine of the same run that is just ending."""


def main(arguments: list[str]) -> int:
    """Runs one job.

    Returns:
        0: done, 1: failed with a reported error, 2: no such job.
    """
    faulthandler.enable()
    hub.forbid()  # before huggingface_hub is imported
    descriptor = os.dup(1)  # the real standard output
    os.dup2(2, 1)
    match arguments:
        case ["train", run_dir]:
            os.chdir(run_dir)  # as the keeper does: the folder can be renamed meanwhile
            return _train(RunFolder(Path()))
        case ["try"]:
            exit_with_parent()
            from core.engine.generate.chat_job import run_try

            return run_try(descriptor, _load_tried)
        case [name]:
            exit_with_parent()
            _exit_now(_answer(name, Channel(descriptor)))
    return _no_such_job(" ".join(arguments))


def _no_such_job(name: str) -> int:
    print(_("no such engine job: {name}").format(name=name), file=sys.stderr)
    return 2


def exit_with_parent() -> None:
    """Exits, with all children, when the process named in the environment is gone; watched in a thread."""

    def watch(pid: int) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(pid)
            while parent.is_running() and parent.status() != psutil.STATUS_ZOMBIE:
                time.sleep(POLL_SECONDS)
        end_group(os.getpid())  # a job leads a process group of its own
        os._exit(1)

    pid = os.environ.get(ASKER, "")
    if pid.isdecimal():
        threading.Thread(target=watch, args=(int(pid),), name="parent-watch", daemon=True).start()


# --- Try it


def _load_tried(run: RunFolder, options: RunOptions, which: Which) -> Any:
    """Loads a model with the engine that would train its run here, but by PyTorch if it began with random weights."""
    backend, why = Backend.TORCH, ""
    if options.task.writes_text and not options.starts_random:
        with contextlib.suppress(UserError):  # PyTorch computes what it can, and says what it can't
            backend, why = choose(options)
    if backend is Backend.MLX:
        from core.engine.mlx import tried

        return tried.load_model(run, options, which, why)
    from core.engine.generate import loading

    return loading.load_model(run, options, which)


# --- Training


class LenientStream:
    """A text stream that ignores failures to write, as on a full disk.

    Otherwise a library's print would end the run, and Python would exit with status 120 when it can't flush.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _train(run: RunFolder) -> int:
    sys.stderr = LenientStream(sys.stderr)
    if is_rank():
        exit_with_parent()
        _exit_now(_train_here(run))  # the others must not wait for what Python does at its end
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(run.path, LOCK_SECONDS, ENGINE_LOCK))
        except TimeoutError:
            print(_("Another training process works on this run already."), file=sys.stderr)
            return 1
        except OSError:  # the disk is full or gone: the first event reports it
            pass
        options = run.readable_options()
        launch = Launch() if options is None else launch_of(options, run.rendezvous())
        if launch.count > 1:
            _exit_now(lead(run, launch))  # a thread may wait for a computer that is gone
        return _train_here(run)


TrainRun = Callable[[RunFolder, RunOptions, Reporter, Checkpoint | None, str], int]
"""Trains in a run's folder and returns the exit status: what an engine is to the rest. The text says why it was chosen,
as in `ResolvedRun.reasons`."""


def _mlx(_options: RunOptions) -> TrainRun:
    from core.engine.mlx.train import train_run

    return train_run


def _pytorch(_options: RunOptions) -> TrainRun:
    prepare_torchvision()
    from core.engine.train import train_run

    return train_run


class Engine(NamedTuple):
    """An engine: whether it trains a run, and a function that imports it."""

    trains: Callable[[RunOptions], bool]
    load: Callable[[RunOptions], TrainRun]


ENGINES = [
    Engine(lambda options: options.device.backend is Backend.MLX, _mlx),
    Engine(lambda _options: True, _pytorch),
]
"""The first one that trains a run is its engine; PyTorch, which trains any, is the last."""


def engine_of(options: RunOptions) -> TrainRun:
    """Loads the engine of a run, whose `device.backend` is chosen."""
    return next(engine for engine in ENGINES if engine.trains(options)).load(options)


def _train_here(run: RunFolder) -> int:
    """Trains in this process, alone or as a rank; rank 0 finds the checkpoint and writes the events."""
    from core.engine.devices.capabilities import versions

    start = find_checkpoint(run) if rank() == 0 else StartPoint()
    reporter = Reporter(run, writes=rank() == 0)
    reporter.start(versions(), start.step)
    start.warn(reporter)
    try:
        options = run.options()
        prepare_environment(options)
        hide_libraries(options)  # `choose` may import transformers
        if hub.may_be_there(options) and not is_complete(options):
            from core.engine.hub.token import lend_token

            lend_token()  # the run downloads its model
        if start.checkpoint is None:
            backend, why = choose(options)
        else:
            backend, why = choose_again(options, start.checkpoint)
    except UserError as error:
        reporter.fail(error)
        return 1
    options = with_changes(options, {"device.backend": backend})
    return engine_of(options)(run, options, reporter, start.checkpoint, why)


# --- Jobs that answer a request


STEPS = 5
"""About the number of steps of an export."""
ALIVE_SECONDS = 20.0
"""A job that is silent for minutes would be ended."""


class Channel:
    """A job's request on standard input, and progress and the answer on the real standard output."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._lock = threading.Lock()

    def read(self, kind: type[Request]) -> Request:
        return msgspec.json.decode(sys.stdin.buffer.read(), type=kind)

    def progress(self, done: int, total: int, what: str = "") -> None:
        """Writes a line of progress; thread-safe."""
        line = msgspec.json.encode(JobProgress(done=done, total=total, what=what)) + b"\n"
        with self._lock:
            os.write(self.descriptor, line)

    @contextlib.contextmanager
    def steps(self) -> Iterator[Callable[[str], None]]:
        """Yields a function that reports the next step, which is repeated while the step takes long."""
        current, ended = (0, ""), threading.Event()

        def begin(what: str) -> None:
            nonlocal current
            current = min(current[0] + 1, STEPS), what
            self.progress(current[0], STEPS + 1, what)

        def stay_alive() -> None:
            while not ended.wait(ALIVE_SECONDS):
                self.progress(current[0], STEPS + 1, current[1])

        thread = threading.Thread(target=stay_alive, name="alive", daemon=True)
        thread.start()
        try:
            yield begin
        finally:
            ended.set()
            thread.join()


def _run_job(name: str, channel: Channel) -> msgspec.Struct | None:
    """Runs the job of that name, without network access; returns None if there is none."""
    match name:
        case "devices":
            number_by_slot()
            from core.engine.devices.capabilities import gather
            from core.engine.devices.choose import report

            return report(gather(with_compilers=True))
        case "check-device":
            device_request = channel.read(DeviceCheckRequest)
            number_by_slot()
            os.environ["PYTORCH_ENABLE_MPS_FALLBACK"] = "0"  # all is computed on the device that is checked
            os.environ["MLX_ENABLE_TF32"] = "0"  # and in fp32 where it says so
            from core.engine.devices.check import check_device

            return check_device(device_request, _checks_of_mlx)
        case "inspect":
            inspect_request = channel.read(InspectRequest)
            options = _checked(inspect_request.asked)
            if options.model.source or options.task.reads_images:
                options = _prepare_for(inspect_request.asked)
            else:
                stay_offline()
                prepare_torchvision()
            from core.engine.inspect.report import inspect

            say(options.data.train)
            return inspect(options, channel.progress, any_task=inspect_request.any_task)
        case "check-model" | "forecast" | "measure":
            request = channel.read(OptionsRequest)
            options = _prepare_for(request.asked)
            if name == "check-model":
                from core.engine.memory.model_check import check_model

                model = check_model(options, request.labels)
                if not model.architecture:
                    return model
                problems = (*model.problems, *model_problems(options))
                why_not_mlx = why_not_mlx_here(options)
                return msgspec.structs.replace(model, problems=problems, why_not_mlx=why_not_mlx)
            options = with_changes(options, {"device.backend": choose(options)[0]})
            if name == "forecast":
                from core.engine.memory.forecast import forecast

                return forecast(options, request.labels)
            from core.engine.memory.measure import measure

            return measure(options)
        case "script":
            script_request = channel.read(ScriptRequest)
            options = _prepare_for(script_request.asked)
            options = with_changes(options, {"device.backend": choose(options)[0]})
            if options.device.backend is Backend.MLX:
                from core.engine.mlx.script import write_script
            else:
                from core.engine.script import write_script

            return write_script(script_request, options)
        case "export":
            export_request = channel.read(ExportRequest)
            source = find_source(RunFolder(Path(export_request.run)), export_request.checkpoint)
            prepare(msgspec.structs.replace(source.options, device=DeviceOptions(name="cpu")))
            os.environ["CUDA_VISIBLE_DEVICES"] = ""  # a run that trains keeps the GPU
            from core.engine.export import job

            with channel.steps() as begin_step:
                if export_request.kind.needs_mlx or source.bits:
                    from core.engine.mlx import export as mlx_export

                    writers = {**job.WRITERS, **mlx_export.WRITERS}
                    return job.export(export_request, begin_step, writers, mlx_export.unpack)
                return job.export(export_request, begin_step)
    return _run_network_job(name, channel)


def _checks_of_mlx() -> Sequence[Any]:
    from core.engine.mlx.check import CHECKS

    return CHECKS


def _run_network_job(name: str, channel: Channel) -> msgspec.Struct | None:
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    from core.engine.hub import account, download, search, web

    match name:
        case "export-push":
            with channel.steps() as begin_step:
                return download.push(channel.read(PushRequest), begin_step)
        case "fetch-config":
            token.lend_token()
            return download.fetch_config(channel.read(hub_jobs.ConfigRequest).source)
        case "fetch-uv":
            return UvProgram(path=str(web.fetch_uv(Path(channel.read(UvProgram).path))))
        case "hub-account":
            return account.account(channel.read(hub_jobs.AccountRequest))
        case "hub-cached":
            return download.cached()
        case "hub-download":
            return download.download(channel.read(hub_jobs.DownloadRequest), channel.progress)
        case "hub-remove":
            return download.remove_cached(channel.read(hub_jobs.RemoveRequest))
        case "hub-search":
            return search.search(channel.read(hub_jobs.SearchRequest))
    return None


def _checked(tree: Tree) -> RunOptions:
    options, problems = read_options(tree)
    if options is None:
        raise OptionsError(problems)
    return options


def _prepare_for(tree: Tree) -> RunOptions:
    """Prepares this process to build the model of these options, offline.

    Raises:
        OptionsError: An option is wrong.
    """
    options = _checked(tree)
    say(_("The model {source}").format(source=options.model.source) if options.model.source else "")
    prepare(options)
    return options


def _answer(name: str, channel: Channel) -> int:
    """Runs a job and writes its result, or the error, as JSON; returns the exit status."""
    status = 1
    result: msgspec.Struct | None
    try:
        result, status = _run_job(name, channel), 0
    except UserError as error:
        result = JobFailure(error=FailureReport(title=error.title, detail=error.detail, fixes=error.fixes))
    except MemoryError as error:
        title = _("There is too little memory for this")
        result = JobFailure(error=FailureReport(title=title, detail=str(error)))
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    if result is None:
        return _no_such_job(name)
    with os.fdopen(channel.descriptor, "wb") as out:
        out.write(msgspec.json.encode(result))
    return status


def _exit_now(status: int) -> NoReturn:
    """Exits without finalizing the interpreter, which takes a second and in which threads of Arrow can abort."""
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):  # its reader is gone
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
