"""The engine process: `python -P -m core.engine JOB ...`.

Jobs: `train RUN_DIR` reports into the run's folder; `try` answers line by line (`core.services.chat`); the others
read a question as JSON from standard input and answer with JSON on standard output. The real standard output is kept
for that answer alone: what libraries print goes to standard error.
"""

import atexit
import contextlib
import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TextIO

import msgspec
import psutil

from core.base.ceiling import say
from core.base.errors import OptionsError, UserError
from core.base.files import ENGINE_LOCK, locked
from core.base.jobs import FailureReport, JobFailure, JobProgress
from core.base.processes import ASKER, end_group
from core.engine.checkpoints import bring_back, set_aside
from core.engine.environment import (
    prepare,
    prepare_device_check,
    prepare_fetching,
    prepare_torchvision,
    stay_offline,
)
from core.engine.hub import jobs as hub_jobs
from core.engine.reporter import Reporter
from core.monitor.nvidia import number_by_slot
from core.options import RunOptions, Tree
from core.options.sections import DeviceOptions
from core.options.validate import read_options
from core.runs.folder import RunFolder
from core.runs.models import STATE, Checkpoint, is_undamaged, newest_first
from core.services import hub
from core.services.hub import is_complete

# --- A job that answers a question ends with whoever asked: nobody waits for the answer


LOOK_SECONDS = 1.0


def end_with_asker() -> None:
    """Watch who asked, in a thread of its own, and end this process and its children once that one is gone.

    Started by hand, without its number in the environment, a job is left alone.
    """
    asker = os.environ.get(ASKER, "")
    if asker.isdecimal():
        threading.Thread(target=_watch, args=(int(asker),), name="asker", daemon=True).start()


def _watch(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        asker = psutil.Process(pid)
        while asker.is_running() and asker.status() != psutil.STATUS_ZOMBIE:
            time.sleep(LOOK_SECONDS)
    end_group(os.getpid())  # a worker leads a group of its own, in which its children are
    os._exit(1)


# --- The log of a run on a disk that may be full: what can't be printed is left out


class LenientStream:
    """A text stream whose failures to write go unheard; all else is the stream's own.

    Libraries print where they like. And Python itself would end with a status of its own, 120, where it can't flush
    what is left over, so that nobody could tell how the run really ended.

    Args:
        stream: What is written to.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, if that can be done; returns the characters taken."""
        with contextlib.suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Leave nothing unwritten, if that can be done."""
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_leniently() -> None:
    """Let what is printed from now on be left out where it can't be written."""
    sys.stderr = LenientStream(sys.stderr)


# --- From where a run goes on


@dataclass(frozen=True)
class Start:
    """Where an attempt begins. `damaged` are the checkpoints that were passed over, under the names they have now."""

    checkpoint: Checkpoint | None = None
    damaged: tuple[Path, ...] = ()

    @property
    def step(self) -> int:
        """The step it goes on from; 0 for a run that begins."""
        return self.checkpoint.step if self.checkpoint is not None else 0

    def warn(self, reporter: Reporter) -> None:
        """Say what was passed over."""
        if not self.damaged:
            return
        names = ", ".join(f"{path.parent.name}/{path.name}" for path in self.damaged)
        where = f"from the checkpoint of step {self.step:,}" if self.checkpoint else "from the beginning"
        reporter.warn(
            "checkpoint-damaged",
            f"The newest checkpoint is damaged: the run goes on {where}",
            f"Its files are no longer what was saved; a disk may be failing. It was set aside: {names}.",
        )


def find_start(run: RunFolder) -> Start:
    """Read all of the newest checkpoint and hold it against its hashes; a damaged one is set aside for the one before.

    It takes about a second for each GB. A model that was about to be replaced when the run was killed is put back, too.

    Raises:
        OSError: A damaged one can't be set aside.
    """
    damaged: list[Path] = []
    bring_back(run.model)
    for checkpoint in newest_first(run.checkpoints):
        if is_undamaged(checkpoint.path) and _is_of_its_step(checkpoint):
            return Start(checkpoint, tuple(damaged))
        damaged.append(set_aside(checkpoint.path))
    return Start(None, tuple(damaged))


class _State(msgspec.Struct):
    global_step: int


def _is_of_its_step(checkpoint: Checkpoint) -> bool:
    """Whether Trainer's own record names the step that the folder's name does."""
    try:
        state = msgspec.json.decode((checkpoint.path / STATE).read_bytes(), type=_State)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return False
    return state.global_step == checkpoint.step


# --- The engine process: `python -P -m core.engine JOB ...`


LOCK_SECONDS = 2.0
"""How long another engine of the same run is waited for: one that ends is gone by then."""


def main(arguments: list[str]) -> int:
    """Run one job. One that answers ends the process with its status.

    Returns:
        0 when it is done, 1 when it failed and said why, 2 when there is no such job.
    """
    faulthandler.enable()
    hub.forbid()  # before huggingface_hub is imported
    answer_to = _keep_stdout_clean()
    match arguments:
        case ["train", run_dir]:
            os.chdir(run_dir)  # as the keeper: a folder that is renamed still is this one
            return _train(Path())
        case ["try"]:
            end_with_asker()
            return _try(answer_to)
        case [name] if name in _LONG_JOBS:
            end_with_asker()
            _leave(_answer(answer_to, lambda: _LONG_JOBS[name](answer_to)))
        case [name] if name in _QUESTIONS:
            end_with_asker()
            _leave(_answer(answer_to, _QUESTIONS[name]))
    print(f"no such engine job: {' '.join(arguments)}", file=sys.stderr)
    return 2


def _keep_stdout_clean() -> int:
    """Point file descriptor 1 at standard error; returns a descriptor of the real standard output."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return kept


def _train(path: Path) -> int:
    run = RunFolder(path)
    print_leniently()
    with contextlib.ExitStack() as held:
        try:
            held.enter_context(locked(path, LOCK_SECONDS, ENGINE_LOCK))
        except TimeoutError:
            print("Another training process works on this run already.", file=sys.stderr)
            return 1
        except OSError:  # a full disk, or none: what is written next tells
            pass
        return _train_alone(run)


def _train_alone(run: RunFolder) -> int:
    from core.engine.capabilities import versions

    start = find_start(run)  # before it says from where it goes on: a damaged checkpoint is passed over
    reporter = Reporter(run)
    reporter.start(versions(), start.step)
    start.warn(reporter)
    try:
        options = run.options()
    except UserError as error:
        reporter.fail(error)
        return 1
    return _train_with_torch(run, options, reporter, start.checkpoint)


def _train_with_torch(
    run: RunFolder, options: RunOptions, reporter: Reporter, checkpoint: Checkpoint | None
) -> int:
    prepare(options, offline=False)
    if hub.may_be_there(options) and not is_complete(options):
        from core.engine.hub.account import lend_token

        lend_token()  # the run fetches its model
    from core.engine.train import train_run

    return train_run(run, options, reporter, checkpoint)


def _try(descriptor: int) -> int:
    from core.engine.generate.chat_job import run_try

    return run_try(descriptor)


def _devices() -> msgspec.Struct:
    number_by_slot()  # before torch is imported
    from core.engine.capabilities import gather
    from core.engine.devices import report

    return report(gather(with_compilers=True))


def _check_device() -> msgspec.Struct:
    from core.services.devices import DeviceCheckRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=DeviceCheckRequest)
    prepare_device_check()  # before torch is imported
    from core.engine.device_check import check_device

    return check_device(request)


def _inspect(descriptor: int) -> msgspec.Struct:
    from core.services.inspect import InspectRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=InspectRequest)
    options = _options(request.asked)
    if options.model.source or options.task.reads_images:
        options = _prepared_for(request.asked)
    else:
        stay_offline()
        prepare_torchvision()
    from core.engine.inspect.report import inspect

    say(options.data.train)

    def tell(done: int, total: int) -> None:
        os.write(descriptor, msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")

    return inspect(options, tell, any_task=request.any_task)


def _check_model() -> msgspec.Struct:
    from core.memory.model import ModelRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ModelRequest)
    options = _prepared_for(request.asked)
    from core.engine.check_model import check_model

    return check_model(options, request.labels)


def _fetch_uv() -> msgspec.Struct:
    from core.engine.hub.web import fetch_uv
    from core.services.gpu_install import UvProgram

    folder = msgspec.json.decode(sys.stdin.buffer.read(), type=UvProgram).path
    return UvProgram(path=str(fetch_uv(Path(folder))))


def _fetch_config() -> msgspec.Struct:
    from core.services.hub import ConfigRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ConfigRequest)
    prepare_fetching()  # before huggingface_hub is imported
    from core.engine.hub.account import lend_token

    lend_token()
    from core.engine.hub.download import fetch_config

    return fetch_config(request.source)


def _forecast() -> msgspec.Struct:
    from core.memory.model import ForecastRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ForecastRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.forecast import forecast

    return forecast(options, request.labels)


def _measure() -> msgspec.Struct:
    from core.memory.model import MeasureRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=MeasureRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.measure import measure

    return measure(options)


def _sample(descriptor: int) -> msgspec.Struct:
    from core.benchmark.result import SampleRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=SampleRequest)
    options = _prepared_for(request.asked)
    from core.engine.memory.weigh import sample

    total = max(1, request.warm_up) + request.steps

    def tell(done: int) -> None:
        os.write(descriptor, msgspec.json.encode(JobProgress(done=done, total=total)) + b"\n")

    return sample(options, steps=request.steps, warm_up=request.warm_up, tell=tell)


def _script() -> msgspec.Struct:
    from core.sharing.script import ScriptRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ScriptRequest)
    options = _prepared_for(request.asked)
    from core.engine.script import write_script

    return write_script(request, options)


def _export(descriptor: int) -> msgspec.Struct:
    """Export a run's model, without a network and away from the GPU."""
    from core.services.export import ExportRequest, find_source

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ExportRequest)
    options = find_source(RunFolder(Path(request.run)), request.checkpoint).options
    prepare(msgspec.structs.replace(options, device=DeviceOptions(name="cpu")))
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    from core.engine.export.job import export

    with _telling(descriptor) as tell:
        return export(request, tell.say)


def _push(descriptor: int) -> msgspec.Struct:
    """Send a folder to the Hub."""
    from core.services.export import PushRequest

    request = msgspec.json.decode(sys.stdin.buffer.read(), type=PushRequest)
    with _telling(descriptor) as tell:
        return hub_jobs.push_job(request, tell.say)


STEPS = 5
"""About so many things are done one after the other."""
ALIVE_SECONDS = 20.0
"""So often the job says that it lives: one that is silent for minutes would be given up."""


class _Telling:
    """Says on a line of its own what is being done, and says it again while that takes long."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self._done = 0
        self._what = ""

    def say(self, what: str) -> None:
        with self._lock:
            self._done, self._what = min(self._done + 1, STEPS), what
        self.again()

    def again(self) -> None:
        with self._lock:
            told = JobProgress(done=self._done, total=STEPS + 1, what=self._what)
            os.write(self._descriptor, msgspec.json.encode(told) + b"\n")


@contextlib.contextmanager
def _telling(descriptor: int) -> Iterator[_Telling]:
    telling, ended = _Telling(descriptor), threading.Event()

    def stay_alive() -> None:
        while not ended.wait(ALIVE_SECONDS):
            telling.again()

    thread = threading.Thread(target=stay_alive, name="alive", daemon=True)
    thread.start()
    try:
        yield telling
    finally:
        ended.set()
        thread.join()


def _release() -> msgspec.Struct:
    from core.engine.hub.web import newest_release
    from core.services.hub import ReleaseRequest

    return newest_release(msgspec.json.decode(sys.stdin.buffer.read(), type=ReleaseRequest))


def _prepared_for(asked: Tree) -> RunOptions:
    """Get this process ready to build the model that is asked about, without a network.

    Raises:
        OptionsError: What is asked is wrong.
    """
    options = _options(asked)
    say(f"The model {options.model.source}" if options.model.source else "")
    prepare(options)
    return options


def _options(asked: Tree) -> RunOptions:
    """The options that were sent.

    Raises:
        OptionsError: What is asked is wrong.
    """
    options, problems = read_options(asked)
    if options is None:
        raise OptionsError(problems)
    return options


_LONG_JOBS: dict[str, Callable[[int], msgspec.Struct]] = {
    "hub-download": hub_jobs.download_job,
    "inspect": _inspect,
    "export": _export,
    "export-push": _push,
    "sample": _sample,
}
"""They tell on the way how far they are, through the descriptor they are given."""

_QUESTIONS: dict[str, Callable[[], msgspec.Struct]] = {
    "devices": _devices,
    "check-device": _check_device,
    "check-model": _check_model,
    "fetch-config": _fetch_config,
    "fetch-uv": _fetch_uv,
    "forecast": _forecast,
    "measure": _measure,
    "release": _release,
    "script": _script,
    **hub_jobs.QUESTIONS,
}


def _answer(descriptor: int, job: Callable[[], msgspec.Struct]) -> int:
    """Write what `job` returns as JSON, or why it can't."""
    try:
        answer, status = job(), 0
    except UserError as error:
        answer, status = (
            JobFailure(error=FailureReport(title=error.title, detail=error.detail, fixes=error.fixes)),
            1,
        )
    except MemoryError as error:
        told = FailureReport(title="There is too little memory for this", detail=str(error))
        answer, status = JobFailure(error=told), 1
    except Exception:  # noqa: BLE001 - the outer edge of this process: logged whole
        traceback.print_exc(file=sys.stderr)
        return 1
    with os.fdopen(descriptor, "wb") as out:
        out.write(msgspec.json.encode(answer))
    return status


def _leave(status: int) -> NoReturn:
    """End the process at once. Taking the interpreter apart takes a second, and threads of Arrow's that read ahead were
    seen to abort in it, after the answer: that looked like a crash.
    """
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
